//! Where a job adds up: the aggregation tree, its hop stacks and the bytes on every link.

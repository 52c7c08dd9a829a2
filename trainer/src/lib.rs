//! A small neural network and its data, to train over the fabric.

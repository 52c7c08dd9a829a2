//! The network's topology: one TOML file, validated, as a graph.

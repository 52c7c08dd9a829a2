//! Generates the messages and the services from `proto/`, with a protobuf compiler in Rust: nothing to
//! install.

use std::error::Error;

const PROTOS: [&str; 3] = [
    "proto/tributary/controller/v1/controller.proto",
    "proto/tributary/agent/v1/agent.proto",
    "proto/tributary/ps/v1/ps.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    for proto in PROTOS {
        println!("cargo:rerun-if-changed={proto}");
    }
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}

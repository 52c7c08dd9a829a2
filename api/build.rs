//! Generates the messages and the service from `proto/`, with a protobuf compiler in Rust: nothing to
//! install.

use std::error::Error;

const PROTO: &str = "proto/tributary/controller/v1/controller.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}

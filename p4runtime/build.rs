//! Generates the P4Runtime messages, client and server from `proto/`, and a descriptor of them for the text
//! format of P4Info. `protox` is a protoc in Rust: nothing but a Rust toolchain is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const INCLUDE: &str = "proto";
const FILES: [&str; 2] = ["p4/v1/p4runtime.proto", "google/rpc/code.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={INCLUDE}");
    let mut compiler = protox::Compiler::new([INCLUDE])?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;
    let descriptors = compiler.file_descriptor_set();

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    let mut config = tonic_prost_build::Config::new();
    // google.protobuf.Any says by name what is inside.
    config.enable_type_names();
    tonic_prost_build::configure().compile_fds_with_config(descriptors, config)?;
    Ok(())
}

//! The messages, the client, the server and the descriptors that are checked in are those of
//! the files under `proto`.

use tributary_testkit::generated;

use std::fs;

use prost::Message;

const INCLUDE: &str = "proto";
const FILES: [&str; 2] = ["p4/v1/p4runtime.proto", "google/rpc/code.proto"];

#[test]
fn what_is_checked_in_is_what_the_proto_files_make() {
    generated::check("src/generated", |out| {
        let mut compiler = protox::Compiler::new([INCLUDE]).unwrap();
        compiler.include_imports(true).include_source_info(true).open_files(FILES).unwrap();
        let descriptors = compiler.file_descriptor_set();

        let mut stripped = descriptors.clone();
        for file in &mut stripped.file {
            // The comments, which the generated code has and the text format does not need.
            file.source_code_info = None;
        }
        fs::write(out.join("descriptors.bin"), stripped.encode_to_vec()).unwrap();

        let mut config = tonic_prost_build::Config::new();
        // google.protobuf.Any says by name what is inside.
        config.enable_type_names();
        let builder = tonic_prost_build::configure().out_dir(out);
        let builder = builder.codec_path("tributary_transport::BoundedCodec");
        builder.compile_fds_with_config(descriptors, config).unwrap();
    });
}

//! The messages and the services that are checked in are those of the files under `proto`.

use tributary_testkit::generated;

const CONTROLLER: &str = "proto/tributary/controller/v1/controller.proto";
/// Services that authenticate a caller before reading a message:
/// by the socket's file, or by a credentials.
const OTHERS: [&str; 2] = ["proto/tributary/agent/v1/agent.proto", "proto/tributary/ps/v1/ps.proto"];
/// The messages that several of the other files import.
const SHARED: &str = "proto/tributary/schedule/v1/schedule.proto";

#[test]
fn what_is_checked_in_is_what_the_proto_files_make() {
    generated::check("src/generated", |out| {
        let services =
            || tonic_prost_build::configure().extern_path(".tributary.schedule.v1", "crate::schedule");
        let controller = services().codec_path("tributary_transport::BoundedCodec");
        let descriptors = protox::compile([CONTROLLER], ["proto"]).unwrap();
        controller.out_dir(out).compile_fds(descriptors).unwrap();
        let descriptors = protox::compile(OTHERS, ["proto"]).unwrap();
        services().out_dir(out).compile_fds(descriptors).unwrap();
        let shared = protox::compile([SHARED], ["proto"]).unwrap();
        tonic_prost_build::configure().out_dir(out).compile_fds(shared).unwrap();
    });
}

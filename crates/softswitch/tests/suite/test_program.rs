//! The programs under `programs/`, as p4c has compiled them.

/// Loads the pipeline of the test program with this name.
macro_rules! test_program {
    ($name:literal) => {
        tributary_softswitch::Pipeline::load_text(
            include_str!(concat!("../programs/", $name, ".json")),
            include_str!(concat!("../programs/", $name, ".p4info.txtpb")),
        )
        .unwrap()
    };
}

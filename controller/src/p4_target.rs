//! The kinds of switches for which there is a compiled program.
//!
//! They differ little for the controller. The names of tables, actions and counters are equal (`tests/programs.rs`),
//! and the P4Info gives the numbers of values, slots and children of a switch. Ports have the switch's own numbers,
//! which the topology file gives (`ends = ["leaf:132", "w0"]`). The controller never reads or clears registers, because
//! none of their P4Runtime servers supports that reliably.

use std::path::Path;

/// A kind of switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum P4Target {
    /// BMv2 and the embedded switch. Also Tofino's program behind the shim (`p4/shim`).
    V1model,
    /// Tofino, with Stratum as its P4Runtime server.
    Tofino,
}

impl P4Target {
    const ALL: [Self; 2] = [Self::V1model, Self::Tofino];

    /// Returns the name of the file that the controller sends to the switch as P4Runtime's
    /// `p4_device_config`.
    /// The file is beside the P4Info. For v1model, p4c creates it. For Tofino, Stratum's `bf_pipeline_builder` creates
    /// it from the compiler's output (`docs/tofino.md`).
    pub(crate) fn device_config(self) -> &'static str {
        match self {
            Self::V1model => "tributary.json",
            Self::Tofino => "tributary.pb.bin",
        }
    }

    /// Returns the target for which a folder has a program; v1model if it has none.
    pub(crate) fn of(folder: &Path) -> Self {
        let has = |target: &Self| folder.join(target.device_config()).is_file();
        Self::ALL.into_iter().find(has).unwrap_or(Self::V1model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_for_the_target_whose_file_it_has() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(P4Target::of(folder.path()), P4Target::V1model);
        std::fs::write(folder.path().join("tributary.pb.bin"), [0xff, 0]).unwrap();
        assert_eq!(P4Target::of(folder.path()), P4Target::Tofino);
        std::fs::write(folder.path().join("tributary.json"), "{}").unwrap();
        assert_eq!(P4Target::of(folder.path()), P4Target::V1model);
    }
}

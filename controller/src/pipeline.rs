//! The compiled P4 program: the files for the switches, and the ids of the program's names.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4info::{Counter, P4InfoError};
use tributary_wire::SliceWidth;
use tributary_wire::constants::MAX_CHILDREN;

use crate::p4_target::P4Target;
use crate::tables::admission::{Admit, CHILDREN};
use crate::tables::{self, Fields, multicast};

/// The name of the P4Info file in a compiled program's directory.
const P4INFO_FILE: &str = "tributary.p4info.txtpb";
/// The two files of the program for slices of [256 values](SliceWidth::ETHERNET).
const BUILT_IN_FOR_ETHERNET: [&str; 2] = [
    include_str!("../../p4/build/256/tributary.json"),
    include_str!("../../p4/build/256/tributary.p4info.txtpb"),
];
/// The two files of the program for slices of [2,048 values](SliceWidth::WIDEST).
const BUILT_IN_FOR_JUMBO_FRAMES: [&str; 2] = [
    include_str!("../../p4/build/2048/tributary.json"),
    include_str!("../../p4/build/2048/tributary.p4info.txtpb"),
];
/// The file name of the built-in program in error messages.
const BUILT_IN_NAME: &str = "tributary.p4info.txtpb (built in)";
/// A register array with one cell for each slot. Its size is the number of slots.
const SLOT_REGISTER: &str = "slot_values_0";
/// The prefix of the register arrays that hold the values of slots.
/// The number of an array's first lane follows the prefix.
const VALUES_REGISTERS: &str = "slot_values_";
/// A counter array with one cell for each job. Its size is the maximum number of jobs.
const JOB_COUNTER: &str = "job_received";
pub(crate) const JOB_COUNTER_PREFIX: &str = "job_";
pub(crate) const PORT_COUNTER_PREFIX: &str = "port_";
/// The field of the packet-in header with the ingress port of a packet.
pub(crate) const PACKET_IN_PORT: &str = "ingress_port";
/// The field of the packet-out header with the egress port of a packet.
pub(crate) const PACKET_OUT_PORT: &str = "egress_port";

/// The source of the compiled program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PipelineSource {
    /// The program that is built into this version of Tributary. The variant for the widest slices of all
    /// links is chosen.
    #[default]
    BuiltIn,
    /// A directory with `tributary.p4info.txtpb` and the device configuration.
    ///
    /// The device configuration is `tributary.json` for BMv2 and the embedded switch, and `tributary.pb.bin` for
    /// Tofino.
    Directory(PathBuf),
}

/// A compiled P4 program that is built into this version of Tributary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltInPipeline {
    /// The widest slices that the program aggregates.
    pub width: SliceWidth,
    /// The number of slots of a switch that runs the program.
    pub slots: u32,
    /// Identifies the program: the first 64 bits of a hash of its files.
    pub cookie: u64,
}

/// Returns the built-in P4 programs, the program for the narrowest slices first.
///
/// # Errors
/// [`PipelineError`]: the build of Tributary is defective.
pub fn built_in_pipelines() -> Result<Vec<BuiltInPipeline>, PipelineError> {
    let load = |widest| {
        let Pipeline { capacity, cookie, .. } = Pipeline::load(&PipelineSource::BuiltIn, widest)?;
        Ok(BuiltInPipeline { width: capacity.widest, slots: capacity.slots, cookie })
    };
    [SliceWidth::ETHERNET, SliceWidth::WIDEST].into_iter().map(load).collect()
}

/// Returns the number of slots of a switch with the built-in program.
///
/// # Errors
/// [`PipelineError`]: the build of Tributary is defective.
pub fn built_in_slots() -> Result<u32, PipelineError> {
    Ok(Pipeline::load(&PipelineSource::BuiltIn, SliceWidth::ETHERNET)?.capacity.slots)
}

/// Reasons why a compiled program cannot be installed.
#[derive(Debug, Error)]
pub enum PipelineError {
    /// One of the two files cannot be read. Compile the program, or name the directory that contains it.
    #[error("{}: cannot read the compiled P4 program: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The P4Info is not valid.
    #[error("{}: {reason}", file.display())]
    P4Info {
        /// The file.
        file: PathBuf,
        /// The parser's error.
        reason: P4InfoError,
    },
    /// The P4Info lacks an object that the controller needs, so it describes another program.
    #[error("{}: the program has no {kind} {name:?}: it is not Tributary's, or not of this version", file.display())]
    Missing {
        /// The P4Info file.
        file: PathBuf,
        /// The kind of the missing object, and the place where the object should be.
        kind: String,
        /// The name of the missing object.
        name: String,
    },
    /// The number of bits of a slot's values does not match any slice width.
    #[error(
        "{}: a slot has {bits} bits for values, and a slice 1024, or that times a power of two, up to 65536: it is not \
         Tributary's, or not of this version",
        file.display()
    )]
    Width {
        /// The P4Info file.
        file: PathBuf,
        /// The total number of bits of all register arrays for values.
        bits: u64,
    },
    /// The P4Info has an object that the controller does not know, so it describes another program.
    #[error("{}: the controller does not know the {kind} {name:?}: it is not Tributary's, or not of this version", file.display())]
    Unknown {
        /// The P4Info file.
        file: PathBuf,
        /// The kind of the unknown object, and its place.
        kind: String,
        /// The name of the unknown object.
        name: String,
    },
}

/// A compiled program. It has been checked to contain all names that the controller uses.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// The file for the switch, which is sent as P4Runtime's `p4_device_config`.
    pub(crate) device_config: Vec<u8>,
    pub(crate) info: P4Info,
    /// Identifies the two files: the first 64 bits of their hash.
    pub(crate) cookie: u64,
    /// The capacity of a switch that runs the program.
    pub(crate) capacity: Capacity,
    /// Counter arrays with one cell for each job.
    pub(crate) job_counters: Vec<CounterArray>,
    /// Counter arrays with one cell for each port.
    pub(crate) port_counters: Vec<CounterArray>,
}

/// The capacity of a switch that runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// The number of slots, unless the topology gives the switch fewer.
    pub(crate) slots: u32,
    /// The number of jobs for which the switch has counters.
    pub(crate) job_indices: u16,
    /// The widest slice that the switch supports.
    pub(crate) widest: SliceWidth,
    /// The number of children that the switch can distinguish.
    pub(crate) children: usize,
}

/// A counter array of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CounterArray {
    /// The name of the array in the P4Info.
    pub(crate) name: String,
    /// The event that the array counts: its name without the prefix.
    pub(crate) reason: String,
}

impl Pipeline {
    /// Reads and checks both files of the compiled program.
    /// For the built-in source, it selects the program for the narrowest slices that are at least as wide as `widest`.
    pub(crate) fn load(source: &PipelineSource, widest: SliceWidth) -> Result<Self, PipelineError> {
        let (device_config, text, file) = match source {
            PipelineSource::BuiltIn => {
                let for_ethernet = widest <= SliceWidth::ETHERNET;
                let [json, p4info] =
                    if for_ethernet { BUILT_IN_FOR_ETHERNET } else { BUILT_IN_FOR_JUMBO_FRAMES };
                (json.as_bytes().to_owned(), p4info.to_owned(), PathBuf::from(BUILT_IN_NAME))
            }
            PipelineSource::Directory(directory) => {
                let file = directory.join(P4INFO_FILE);
                let device_config = directory.join(P4Target::of(directory).device_config());
                (
                    read(device_config, tributary_files::read)?,
                    read(file.clone(), tributary_files::read_text)?,
                    file,
                )
            }
        };
        let cookie = cookie(&device_config, &text);
        match P4Info::parse(&text) {
            Ok(info) => Self::new(device_config, info, cookie, &file),
            Err(reason) => Err(PipelineError::P4Info { file, reason }),
        }
    }

    fn new(device_config: Vec<u8>, info: P4Info, cookie: u64, file: &Path) -> Result<Self, PipelineError> {
        check_tables(&info, file)?;
        check_packets(&info, file)?;
        let missing = |kind, name| missing(file, kind, name);
        let slots = info.register(SLOT_REGISTER).ok_or_else(|| missing("register", SLOT_REGISTER))?.size;
        let jobs = info.counter(JOB_COUNTER).ok_or_else(|| missing("counter", JOB_COUNTER))?.size;
        let capacity = Capacity {
            slots: u32::try_from(slots).unwrap_or(u32::MAX),
            job_indices: u16::try_from(jobs).unwrap_or(u16::MAX).min(multicast::MAX_JOB_GROUPS),
            widest: widest(&info, file)?,
            children: children(&info, file)?,
        };
        Ok(Self {
            capacity,
            cookie,
            job_counters: counters(&info, JOB_COUNTER_PREFIX),
            port_counters: counters(&info, PORT_COUNTER_PREFIX),
            device_config,
            info,
        })
    }
}

/// Returns the slice width that matches the number of bits of a slot.
fn widest(info: &P4Info, file: &Path) -> Result<SliceWidth, PipelineError> {
    let values = info.registers().filter(|register| register.name.alias.starts_with(VALUES_REGISTERS));
    let bits = values.map(|register| u64::from(register.bits)).sum::<u64>();
    SliceWidth::all()
        .find(|width| width.bytes() as u64 * 8 == bits)
        .ok_or_else(|| PipelineError::Width { file: file.to_owned(), bits })
}

/// Returns the number of children of a switch: the bits of a parameter of [`Admit`], at most
/// [`MAX_CHILDREN`].
fn children(info: &P4Info, file: &Path) -> Result<usize, PipelineError> {
    let action = info.action(Admit::NAME);
    let parameter = action.and_then(|action| action.parameters.iter().find(|one| one.name == CHILDREN));
    let parameter = parameter.ok_or_else(|| missing(file, "parameter", CHILDREN))?;
    Ok(MAX_CHILDREN.min(parameter.width as usize))
}

fn read<T>(file: PathBuf, how: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, PipelineError> {
    how(&file).map_err(|reason| PipelineError::Unreadable { file, reason })
}

/// Returns the first 64 bits of a hash of both files and the length of the first file.
fn cookie(device_config: &[u8], p4info: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update((device_config.len() as u64).to_be_bytes());
    hash.update(device_config);
    hash.update(p4info);
    hash.finalize().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn missing(file: &Path, kind: &str, name: &str) -> PipelineError {
    PipelineError::Missing { file: file.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

fn check_tables(info: &P4Info, file: &Path) -> Result<(), PipelineError> {
    for schema in tables::SCHEMAS {
        let table = info.table(schema.name).ok_or_else(|| missing(file, "table", schema.name))?;
        let fields: Vec<&str> = table.key.iter().map(|field| field.name.as_str()).collect();
        check_names(file, &format!("match field of table {:?} called", schema.name), schema.key, &fields)?;
        for used in schema.actions {
            let kind = format!("action of table {:?} called", schema.name);
            let action = info.action(used.name).ok_or_else(|| missing(file, &kind, used.name))?;
            if !table.actions.iter().any(|reference| reference.id == action.name.id) {
                return Err(missing(file, &kind, used.name));
            }
            let parameters: Vec<&str> = action.parameters.iter().map(|field| field.name.as_str()).collect();
            let kind = format!("parameter of action {:?} called", used.name);
            check_names(file, &kind, used.parameters, &parameters)?;
        }
    }
    Ok(())
}

fn check_packets(info: &P4Info, file: &Path) -> Result<(), PipelineError> {
    let headers =
        [("packet_in", info.packet_in(), PACKET_IN_PORT), ("packet_out", info.packet_out(), PACKET_OUT_PORT)];
    for (name, header, port) in headers {
        let header = header.ok_or_else(|| missing(file, "controller header", name))?;
        if !header.fields.iter().any(|field| field.name == port) {
            return Err(missing(file, &format!("field of controller header {name:?} called"), port));
        }
    }
    Ok(())
}

/// Checks that the program has all names that the controller uses, and no others.
fn check_names(file: &Path, kind: &str, ours: &[&str], theirs: &[&str]) -> Result<(), PipelineError> {
    if let Some(name) = ours.iter().find(|name| !theirs.contains(name)) {
        return Err(missing(file, kind, name));
    }
    match theirs.iter().find(|name| !ours.contains(name)) {
        Some(name) => Err(PipelineError::Unknown {
            file: file.to_owned(),
            kind: kind.to_owned(),
            name: (*name).to_owned(),
        }),
        None => Ok(()),
    }
}

fn counters(info: &P4Info, prefix: &str) -> Vec<CounterArray> {
    let reason = |counter: &Counter| {
        let name = counter.name.alias.clone();
        let reason = name.strip_prefix(prefix)?.to_owned();
        Some(CounterArray { name, reason })
    };
    info.counters().filter_map(reason).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn compiled() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4/build/256")
    }

    fn load(directory: &Path) -> Result<Pipeline, PipelineError> {
        Pipeline::load(&PipelineSource::Directory(directory.to_owned()), SliceWidth::ETHERNET)
    }

    #[test]
    fn the_built_in_program_is_the_one_in_the_checkout() {
        let cookie = |source| Pipeline::load(source, SliceWidth::ETHERNET).unwrap().cookie;
        assert_eq!(cookie(&PipelineSource::BuiltIn), cookie(&PipelineSource::Directory(compiled())));
    }

    /// Loads the compiled program after replacing `from` by `to` in its P4Info.
    fn load_with(from: &str, to: &str) -> Result<Pipeline, PipelineError> {
        let directory = tempfile::tempdir().unwrap();
        let p4info = fs::read_to_string(compiled().join(P4INFO_FILE)).unwrap();
        assert!(p4info.contains(from), "{from}");
        fs::write(directory.path().join(P4INFO_FILE), p4info.replace(from, to)).unwrap();
        let json = P4Target::V1model.device_config();
        fs::copy(compiled().join(json), directory.path().join(json)).unwrap();
        load(directory.path())
    }

    fn refused(from: &str, to: &str) -> String {
        let message = load_with(from, to).unwrap_err().to_string();
        message.split_once(": ").unwrap().1.to_owned()
    }

    #[test]
    fn the_compiled_program_has_all_that_is_needed() {
        let pipeline = load(&compiled()).unwrap();
        let Capacity { slots, job_indices, .. } = pipeline.capacity;
        assert!(slots > 0 && job_indices > 0);
        assert!(pipeline.job_counters.iter().any(|counter| counter.reason == "released"));
        assert!(pipeline.port_counters.iter().any(|counter| counter.reason == "egress"));
    }

    #[test]
    fn the_program_is_as_wide_as_the_links_let_it_be_and_says_so() {
        let built_in = |mtu| {
            let widest = SliceWidth::widest_within(mtu).unwrap();
            Pipeline::load(&PipelineSource::BuiltIn, widest).unwrap().capacity.widest
        };
        assert_eq!([576, 1500, 4000, 9000].map(built_in).map(SliceWidth::values), [256, 256, 2048, 2048]);
        for values in [32, 256, 2048] {
            let pipeline = load(&compiled().join("..").join(values.to_string())).unwrap();
            assert_eq!(pipeline.capacity.widest.values(), values);
        }
        assert_eq!(load(&compiled()).unwrap().capacity.children, 64);
        let tofino = load(&compiled().join("../tna-32")).unwrap().capacity;
        assert_eq!((tofino.widest.values(), tofino.children), (32, 32));
        let odd = refused("bitwidth: 2048", "bitwidth: 1024");
        assert!(odd.starts_with("a slot has 5120 bits for values"), "{odd}");
    }

    #[test]
    fn a_program_for_tofino_is_no_text() {
        let directory = tempfile::tempdir().unwrap();
        let p4info = compiled().join("../tna-32").join(P4INFO_FILE);
        fs::copy(p4info, directory.path().join(P4INFO_FILE)).unwrap();
        let packed = [0xff, 0, 0x80];
        fs::write(directory.path().join(P4Target::Tofino.device_config()), packed).unwrap();
        assert_eq!(load(directory.path()).unwrap().device_config, packed);
    }

    #[test]
    fn another_program_has_another_cookie() {
        let same = |a: &Pipeline, b: &Pipeline| a.cookie == b.cookie;
        let ours = load(&compiled()).unwrap();
        let copy = load_with("size: 4096", "size: 4096").unwrap();
        let other = load_with("size: 4096", "size: 2048").unwrap();
        assert!(same(&ours, &copy) && !same(&ours, &other));
    }

    #[test]
    fn what_another_program_lacks_or_adds_is_named() {
        let end = "it is not Tributary's, or not of this version";
        let lacks = |what: &str| format!("the program has no {what}: {end}");
        assert_eq!(refused("alias: \"egress_guard\"", "alias: \"guard\""), lacks("table \"egress_guard\""));
        assert_eq!(
            refused("name: \"source_mac\"", "name: \"mac\""),
            lacks("match field of table \"sender_admission\" called \"source_mac\"")
        );
        assert_eq!(
            refused("alias: \"deliver\"", "alias: \"multicast\""),
            lacks("action of table \"result_group\" called \"deliver\"")
        );
        assert_eq!(
            refused("name: \"slot_mask\"", "name: \"mask\""),
            lacks("parameter of action \"admit\" called \"slot_mask\"")
        );
        assert_eq!(refused("slot_values_0", "slot_values"), lacks("register \"slot_values_0\""));
        assert_eq!(refused("job_received", "received"), lacks("counter \"job_received\""));
        let field = |name: &str| format!("name: {name:?}\n    bitwidth: 9\n  }}\n  metadata");
        assert_eq!(
            refused(&field("egress_port"), &field("port")),
            lacks("field of controller header \"packet_out\" called \"egress_port\"")
        );
        let header = |name: &str| format!("name: {name:?}\n    alias: {name:?}");
        assert_eq!(
            refused(&header("packet_in"), &header("to_cpu")),
            lacks("controller header \"packet_in\"")
        );
        assert_eq!(
            refused(
                "name: \"release\"\n    bitwidth: 1",
                "name: \"release\"\n    bitwidth: 1\n  }\n  params {\n    id: 3\n    name: \"more\"\n    bitwidth: 1"
            ),
            format!(
                "the controller does not know the parameter of action \"deliver\" called \"more\": {end}"
            )
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Path::new("nowhere")).unwrap_err().to_string();
        assert!(error.starts_with("nowhere/tributary.json: cannot read the compiled P4 program"), "{error}");
    }
}

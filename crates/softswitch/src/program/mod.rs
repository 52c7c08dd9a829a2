//! A compiled program. It has everything that the switch's inner loop reads, with indices instead
//! of names.
//!
//! A packet's state is two arrays. *Words* of 64 bits hold fields of up to 64 bits, the headers'
//! validity, the arguments of the running action, intermediate results and constants; *lines* of
//! 512 bits hold wider values, the lowest line first. An instruction ([`Op`]) names words and lines
//! by their index. A field's value always stays below 2^width.

mod calculation;
mod header;
mod instance;
mod key;
mod machine;
mod meter;
mod note;
mod op;
mod pattern;
mod profile;
mod table;
mod value_set;

pub(crate) use calculation::{Algorithm, Calculation, CalculationInput, Checksum, ChecksumPart, FieldSum};
pub(crate) use header::{
    FieldGroup, Format, Header, LooseField, NarrowField, Stack, VariableField, WideField,
};
pub(crate) use instance::Instance;
pub(crate) use key::{KeyField, KeySource, MatchKind};
pub(crate) use machine::{
    CodeIndex, LIMBS, LINE_BITS, Line, LineIndex, MAX_BITS, MAX_KEY_WORDS, NOWHERE, Place, WORDS, Word,
    lines_for,
};
pub(crate) use meter::{DirectMeter, MeterKind, MeterProgram, MeterUnit};
pub(crate) use note::{FieldName, HeaderNames, Note, Notes, Source};
pub(crate) use op::Op;
pub(crate) use pattern::{Pattern, limbs};
pub(crate) use profile::ProfileProgram;
pub(crate) use table::{ActionProgram, FixedEntry, Invocation, TableProgram};
pub(crate) use value_set::ValueSetProgram;

/// The port number that means drop: `mark_to_drop` sets it.
pub const DROP_PORT: u64 = 511;

/// The start of each stage of a packet's processing in the code.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entries {
    /// Start of the parser.
    pub(crate) parser: CodeIndex,
    /// Start of the verification of checksums.
    pub(crate) verify: CodeIndex,
    /// Start of ingress.
    pub(crate) ingress: CodeIndex,
    /// Start of egress.
    pub(crate) egress: CodeIndex,
    /// Start of the update of checksums and the deparser's statements.
    pub(crate) update: CodeIndex,
}

/// A program.
#[derive(Debug)]
pub(crate) struct Program {
    /// All instructions.
    pub(crate) code: Vec<Op>,
    /// The start of each stage.
    pub(crate) entries: Entries,
    /// The words before each packet: fields are 0, and constants are set.
    pub(crate) words: Vec<u64>,
    /// The lines before the first packet: constants are set.
    pub(crate) lines: Vec<Line>,
    /// Number of words at the front that hold fields and validity: they are cleared for each packet.
    pub(crate) field_words: usize,
    /// Number of words at the front that hold metadata.
    pub(crate) metadata_words: usize,
    /// Number of lines at the front that hold metadata: they are cleared for each packet.
    pub(crate) metadata_lines: usize,
    /// Number of lines at the front that hold fields.
    pub(crate) field_lines: usize,
    /// True if egress changes wide fields, so that each copy of a packet needs separate lines.
    pub(crate) egress_changes_lines: bool,
    /// The standard metadata that the switch itself reads and writes.
    pub(crate) standard: Standard,
    /// The wire format of each type of header.
    pub(crate) formats: Vec<Format>,
    /// Headers, by the index that instructions use.
    pub(crate) headers: Vec<Header>,
    /// Header stacks.
    pub(crate) stacks: Vec<Stack>,
    /// Headers in the order of the deparser.
    pub(crate) deparser: Vec<u16>,
    /// Number of bytes of all headers that the deparser writes.
    pub(crate) header_bytes: usize,
    /// Checksums.
    pub(crate) checksums: Vec<Checksum>,
    /// Hashes and checksums.
    pub(crate) calculations: Vec<Calculation>,
    /// The messages that the program can log.
    pub(crate) messages: Vec<Message>,
    /// Tables that the program applies.
    pub(crate) tables: Vec<TableProgram>,
    /// Number of cells of each counter array.
    pub(crate) counters: Vec<usize>,
    /// Value sets of the parser.
    pub(crate) value_sets: Vec<ValueSetProgram>,
    /// Action profiles.
    pub(crate) profiles: Vec<ProfileProgram>,
    /// Meter arrays.
    pub(crate) meters: Vec<MeterProgram>,
    /// Register arrays.
    pub(crate) registers: Vec<RegisterProgram>,
    /// The places of the arguments of actions.
    pub(crate) arguments: Arguments,
    /// Fields that packets keep when they are cloned, resubmitted or recirculated; the first list is empty.
    pub(crate) field_lists: Vec<FieldList>,
    /// Digests.
    pub(crate) digests: Vec<DigestProgram>,
    /// The statements of the program that send digests.
    pub(crate) digest_lists: Vec<DigestFields>,
    /// Names and steps for the packet log; `None` unless the program was loaded for logging.
    pub(crate) notes: Option<Notes>,
}

/// A digest: messages to the controller.
#[derive(Debug, Clone)]
pub(crate) struct DigestProgram {
    /// The digest's name in the P4Info.
    pub(crate) name: String,
    /// Widths of the digest's fields in bits.
    pub(crate) widths: Vec<u32>,
}

/// The places of a digest's values at one statement of the program.
#[derive(Debug, Clone)]
pub(crate) struct DigestFields {
    /// Index of the digest.
    pub(crate) digest: usize,
    /// The places of the values of the digest's fields, in order.
    pub(crate) sources: Vec<KeySource>,
}

/// Fields in a fixed order.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldList {
    /// The fields of up to 64 bits.
    pub(crate) words: Vec<Word>,
    /// The wider fields: first line, and number of lines.
    pub(crate) lines: Vec<(LineIndex, u16)>,
}

/// The words of the standard metadata.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standard {
    pub(crate) ingress_port: Word,
    pub(crate) egress_spec: Word,
    pub(crate) egress_port: Word,
    pub(crate) instance_type: Word,
    pub(crate) packet_length: Word,
    pub(crate) mcast_grp: Word,
    pub(crate) egress_rid: Word,
    pub(crate) checksum_error: Word,
    pub(crate) parser_error: Word,
    /// The `parser_error` of a packet that ends too early.
    pub(crate) packet_too_short: u64,
    /// The `parser_error` of a packet with more headers than a stack holds.
    pub(crate) stack_out_of_bounds: u64,
    /// The `parser_error` of a packet that no transition matches.
    pub(crate) no_match: u64,
    /// The `parser_error` of a packet that keeps the parser looping.
    pub(crate) parser_timeout: u64,
    /// The `parser_error` of a field of variable length that exceeds the maximum length of its
    /// header.
    pub(crate) header_too_short: u64,
    /// The `parser_error` of a length that is not a number of whole bytes.
    pub(crate) invalid_argument: u64,
    /// The fields for timestamps, if the program reads any.
    pub(crate) clocks: Option<Clocks>,
}

/// The words of a packet's timestamps, and the masks of their widths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// The time at which the packet came in.
    pub(crate) ingress: (Word, u64),
    /// The time at which the packet's egress began.
    pub(crate) egress: (Word, u64),
    /// The time at which the packet left ingress.
    pub(crate) enqueued: (Word, u64),
}

/// Message that a program logs.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) level: Level,
    /// The text, in the pieces before, between and behind the values.
    pub(crate) text: Vec<String>,
    pub(crate) values: Vec<Place>,
}

/// Severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Error,
}

/// A register array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegisterProgram {
    /// Number of cells.
    pub(crate) size: usize,
    /// Lines of a cell; 0 if a cell is a word.
    pub(crate) lines: usize,
}

impl RegisterProgram {
    /// Returns true if each cell of the next array lies behind this array's cell with the same index.
    pub(crate) fn is_next_to(&self, next: &Self) -> bool {
        self.size == next.size && self.lines > 0 && next.lines > 0
    }
}

/// The places of an action's arguments.
///
/// The n-th narrow argument is in the n-th word from `word` on. The wide arguments are in the lines
/// from `line` on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arguments {
    /// First word.
    pub(crate) word: Word,
    /// First line.
    pub(crate) line: LineIndex,
}

//! A compiled program: all that the switch's inner loop reads, without anything to look up by name.
//!
//! A packet's state is two arrays. *Words* of 64 bits hold fields of up to 64 bits, the headers' validity, the
//! arguments of the running action, intermediate results and constants; *lines* of 512 bits hold wider values, the
//! lowest line first. An instruction ([`Op`]) names words and lines by their index. A field's value always stays below
//! 2^width.

mod instance;
mod key;
mod machine;
mod meter;
mod note;
mod op;
mod pattern;
mod profile;
mod value_set;

pub(crate) use instance::Instance;
pub(crate) use key::{KeyField, KeySource, MatchKind};
pub(crate) use machine::{
    CodeIndex, LIMBS, LINE_BITS, Line, LineIndex, MAX_BITS, MAX_KEY_WORDS, NOWHERE, WORDS, Word,
};
pub(crate) use meter::{MeterKind, MeterProgram, MeterUnit};
pub(crate) use note::{FieldName, HeaderNames, Note, Notes, Source};
pub(crate) use op::Op;
pub(crate) use pattern::{Pattern, limbs};
pub(crate) use profile::ProfileProgram;
pub(crate) use value_set::ValueSetProgram;

/// The port number that drops: `mark_to_drop` sets it.
pub const DROP_PORT: u64 = 511;

/// Where each stage of a packet's processing begins in the code.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entries {
    /// Parser.
    pub(crate) parser: CodeIndex,
    /// Verification of checksums.
    pub(crate) verify: CodeIndex,
    /// Ingress.
    pub(crate) ingress: CodeIndex,
    /// Egress.
    pub(crate) egress: CodeIndex,
    /// Update of checksums.
    pub(crate) update: CodeIndex,
}

/// A program.
#[derive(Debug)]
pub(crate) struct Program {
    /// All instructions.
    pub(crate) code: Vec<Op>,
    /// Where the stages begin.
    pub(crate) entries: Entries,
    /// The words as they are before a packet: fields 0, constants set.
    pub(crate) words: Vec<u64>,
    /// The lines as they are before the first packet: constants set.
    pub(crate) lines: Vec<Line>,
    /// How many words at the front hold fields and validity: they are cleared for each packet.
    pub(crate) field_words: usize,
    /// How many words at the front hold metadata.
    pub(crate) metadata_words: usize,
    /// How many lines at the front hold metadata: they are cleared for each packet.
    pub(crate) metadata_lines: usize,
    /// How many lines at the front hold fields.
    pub(crate) field_lines: usize,
    /// True if egress changes wide fields, so that each copy of a packet needs its own.
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
    /// Bytes of all headers of the deparser.
    pub(crate) header_bytes: usize,
    /// Checksums.
    pub(crate) checksums: Vec<Checksum>,
    /// Hashes and checksums.
    pub(crate) calculations: Vec<Calculation>,
    /// The messages that the program logs.
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
    /// Where arguments of actions go.
    pub(crate) arguments: Arguments,
    /// Fields that packets keep when they are cloned, resubmitted or recirculated; the first list is empty.
    pub(crate) field_lists: Vec<FieldList>,
    /// Digests.
    pub(crate) digests: Vec<DigestProgram>,
    /// The statements of the program that send digests.
    pub(crate) digest_lists: Vec<DigestFields>,
    /// Names and steps for the packet log, if it was loaded for that.
    pub(crate) notes: Option<Notes>,
}

/// A digest: messages to the controller.
#[derive(Debug, Clone)]
pub(crate) struct DigestProgram {
    /// Its name in the P4Info.
    pub(crate) name: String,
    /// Widths of its fields in bits.
    pub(crate) widths: Vec<u32>,
}

/// Where one place of the program has a digest's values.
#[derive(Debug, Clone)]
pub(crate) struct DigestFields {
    /// Index of the digest.
    pub(crate) digest: usize,
    /// Its fields' values, in order.
    pub(crate) sources: Vec<KeySource>,
}

/// Fields in a fixed order.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldList {
    /// The fields of up to 64 bits.
    pub(crate) words: Vec<Word>,
    /// Wider ones: first line, and number of lines.
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
    /// The `parser_error` of a field of variable length that is longer than its header has room for.
    pub(crate) header_too_short: u64,
    /// The `parser_error` of a length that is not a number of whole bytes.
    pub(crate) invalid_argument: u64,
    /// The fields for timestamps, if the program reads any.
    pub(crate) clocks: Option<Clocks>,
}

/// The words of the times of a packet, and the masks of their widths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// When it came in.
    pub(crate) ingress: (Word, u64),
    /// When its egress began.
    pub(crate) egress: (Word, u64),
    /// When it left ingress.
    pub(crate) enqueued: (Word, u64),
}

/// The wire format of a header.
#[derive(Debug, Clone, Default)]
pub(crate) struct Format {
    /// Its length in bytes, without its field of variable length.
    pub(crate) bytes: usize,
    /// Its greatest length in bytes.
    pub(crate) most_bytes: usize,
    /// Words that it takes; the first is the validity.
    pub(crate) words: u16,
    /// Lines that it takes.
    pub(crate) lines: u16,
    /// Its fields up to 64 bits.
    pub(crate) narrows: Vec<NarrowField>,
    /// The same fields, in groups that begin and end at a byte boundary.
    pub(crate) groups: Vec<Group>,
    /// Its wider fields.
    pub(crate) wides: Vec<WideField>,
    /// Fields of neither kind: they are moved bit by bit.
    pub(crate) loose: Vec<LooseField>,
    /// Its field of variable length.
    pub(crate) variable: Option<VariableField>,
}

/// A field that begins anywhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LooseField {
    /// Its first bit, without the field of variable length.
    pub(crate) bit: u32,
    /// Its width.
    pub(crate) bits: u16,
    /// Its word or its first line, counted from the header's first.
    pub(crate) place: Place,
    /// True if the field comes behind the field of variable length.
    pub(crate) behind_variable: bool,
}

/// A field of variable length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VariableField {
    /// Its first bit.
    pub(crate) bit: u32,
    /// Its first line, counted from the header's first.
    pub(crate) line: u16,
    /// How many lines it takes.
    pub(crate) lines: u16,
    /// The word of its length in bits, counted from the header's first.
    pub(crate) length: u16,
    /// Its greatest length in bytes.
    pub(crate) bytes: u16,
}

impl VariableField {
    /// How many bits it has in a header; never more than there is room for.
    pub(crate) fn bits_of(&self, header: Header, words: &[u64]) -> usize {
        let bits = words[usize::from(header.word + self.length)];
        usize::try_from(bits).unwrap_or(usize::MAX).min(usize::from(self.bytes) * 8)
    }
}

/// Where a value is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// In a word.
    Word(Word),
    /// In lines, from this one on.
    Lines(LineIndex),
}

/// A field of up to 64 bits, as it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NarrowField {
    /// A mask of as many ones as the field has bits.
    pub(crate) mask: u64,
    /// The byte that it begins in.
    pub(crate) offset: u16,
    /// Its word, counted from the header's first.
    pub(crate) word: u16,
    /// Number of bits behind it in the eight bytes that begin at `offset`.
    pub(crate) shift: u8,
}

/// Fields that share bytes, as they are written.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// First byte in the header.
    pub(crate) offset: usize,
    /// Its length, at most 8 bytes.
    pub(crate) bytes: usize,
    /// For each field its word, counted from the header's first, and the number of bits of the group behind it.
    pub(crate) parts: Vec<(u16, u8)>,
}

/// A field of whole bytes that is wider than a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WideField {
    /// First byte in the header.
    pub(crate) offset: usize,
    /// Its length in bytes.
    pub(crate) bytes: usize,
    /// Its first line, counted from the header's first.
    pub(crate) line: u16,
}

/// One header of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// Index of its format.
    pub(crate) format: u16,
    /// Its first word: its validity.
    pub(crate) word: Word,
    /// Its first line.
    pub(crate) line: LineIndex,
}

/// Headers of the same format, next to each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack {
    /// Index of its first header.
    pub(crate) first: u16,
    /// How many there are.
    pub(crate) size: u16,
    /// The word with the number of headers in use.
    pub(crate) count: Word,
    /// Number of words from one header to the next.
    pub(crate) stride: u16,
}

/// A checksum.
#[derive(Debug, Clone)]
pub(crate) struct Checksum {
    /// The word of the field that holds it.
    pub(crate) target: Word,
    /// A mask of as many ones as the field has bits.
    pub(crate) mask: u64,
    /// Index of the calculation that computes it.
    pub(crate) calculation: u16,
    /// The quick way to the same result, if there is one.
    pub(crate) sum: Option<FieldSum>,
}

/// An Internet checksum over fields of headers that are valid.
#[derive(Debug, Clone)]
pub(crate) struct FieldSum {
    /// Its inputs.
    pub(crate) parts: Vec<ChecksumPart>,
    /// The validity words of the inputs' headers.
    pub(crate) headers: Vec<Word>,
}

/// A hash or a checksum over a string of bits.
#[derive(Debug, Clone)]
pub(crate) struct Calculation {
    pub(crate) algorithm: Algorithm,
    /// The inputs, concatenated in this order.
    pub(crate) inputs: Vec<CalculationInput>,
    /// True if the bytes that the parser did not extract follow the inputs.
    pub(crate) payload: bool,
}

/// How a calculation is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// The complement of the ones' complement sum.
    Internet,
    Crc32,
    Crc16,
    CrcCcitt,
    Xor16,
    /// The first eight bytes.
    Identity,
    Random,
}

/// An input of a calculation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CalculationInput {
    /// A field or constant.
    Field {
        place: Place,
        /// Its width; of a field of variable length the greatest.
        bits: u32,
        /// The word of its length in bits, if that varies.
        length: Option<Word>,
        /// The validity word of its header; the field of an invalid header is left out.
        valid: Option<Word>,
    },
    /// A whole header, if it is valid.
    Header(u16),
}

/// What a program logs.
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

/// One input of a checksum, and the shift to its position in its 16-bit word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChecksumPart {
    /// A field or constant of up to 64 bits.
    Word(Word, u8),
    /// A wider one: first line, number of lines, and shift.
    Lines(LineIndex, u8, u8),
}

/// How a table finds its entries.
#[derive(Debug, Clone)]
pub(crate) struct TableProgram {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Number of entries that it has room for.
    pub(crate) size: usize,
    /// The fields of the key.
    pub(crate) key: Vec<KeyField>,
    /// Words of the packed key.
    pub(crate) key_words: usize,
    /// Its actions.
    pub(crate) actions: Vec<ActionProgram>,
    /// The action of a miss, and its arguments.
    pub(crate) default: Option<Invocation>,
    /// True if the action of a miss cannot be changed.
    pub(crate) default_is_constant: bool,
    /// Entries that the program fixes; if there are any, no others can be added.
    pub(crate) fixed: Vec<FixedEntry>,
    /// True if the table counts the packets that its entries match.
    pub(crate) counts: bool,
    /// Index of the action profile that its entries refer to.
    pub(crate) profile: Option<usize>,
    /// True if its entries can time out.
    pub(crate) times_out: bool,
    /// The meter that each of its entries has.
    pub(crate) meter: Option<DirectMeter>,
}

/// A table's direct meter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectMeter {
    /// The unit that the meter counts.
    pub(crate) unit: MeterUnit,
    /// The method by which the meter marks packets.
    pub(crate) kind: MeterKind,
    /// The word of the field that gets the colour of a packet that hits.
    pub(crate) target: Word,
}

/// An action of a table.
#[derive(Debug, Clone)]
pub(crate) struct ActionProgram {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Where its code begins.
    pub(crate) code: CodeIndex,
    /// Widths of its parameters in bits.
    pub(crate) parameters: Vec<u32>,
}

/// An action with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// Index among the table's actions.
    pub(crate) action: usize,
    /// A big-endian byte string for each parameter.
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// An entry that the program fixes.
#[derive(Debug, Clone)]
pub(crate) struct FixedEntry {
    /// The keys that the entry matches.
    pub(crate) pattern: Pattern,
    /// The action that the entry runs.
    pub(crate) action: Invocation,
}

/// A register array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegisterProgram {
    /// Cells.
    pub(crate) size: usize,
    /// Lines of a cell; 0: a cell is a word.
    pub(crate) lines: usize,
}

impl RegisterProgram {
    /// Returns true if each cell of the next array lies behind this array's cell with the same index.
    pub(crate) fn is_next_to(&self, next: &Self) -> bool {
        self.size == next.size && self.lines > 0 && next.lines > 0
    }
}

/// Where an action finds its arguments: the n-th narrow one in the n-th word, the wide ones likewise in lines.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arguments {
    /// First word.
    pub(crate) word: Word,
    /// First line.
    pub(crate) line: LineIndex,
}

/// How many lines hold `bits`.
pub(crate) fn lines_for(bits: u32) -> u16 {
    bits.div_ceil(LINE_BITS) as u16
}

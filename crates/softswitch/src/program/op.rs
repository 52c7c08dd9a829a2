//! The instructions.

use super::machine::{CodeIndex, LineIndex, Word};

/// An instruction. In all instructions, `d` is the place of the result, and `to` is the index of a
/// jump's target.
///
/// Arithmetic on words is modulo 2^64, after which only the lowest 64 - `cut` bits are kept.
/// Arithmetic on lines is modulo 2^(512 `n`). An instruction takes 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Ends the run.
    End,
    /// Returns from an action to the instruction behind its [`Op::Apply`].
    Return,

    // Operations on words.
    Copy {
        d: Word,
        a: Word,
        cut: u8,
    },
    Add {
        d: Word,
        a: Word,
        b: Word,
        cut: u8,
    },
    Sub {
        d: Word,
        a: Word,
        b: Word,
        cut: u8,
    },
    Mul {
        d: Word,
        a: Word,
        b: Word,
        cut: u8,
    },
    And {
        d: Word,
        a: Word,
        b: Word,
        cut: u8,
    },
    Or {
        d: Word,
        a: Word,
        b: Word,
        cut: u8,
    },
    Xor {
        d: Word,
        a: Word,
        b: Word,
        cut: u8,
    },
    /// Shifts to the left. A shift by 64 or more gives 0.
    Shl {
        d: Word,
        a: Word,
        b: Word,
        cut: u8,
    },
    /// Shifts to the right, filling with zeros.
    Shr {
        d: Word,
        a: Word,
        b: Word,
        cut: u8,
    },
    /// Shifts to the right, filling with the sign.
    Sar {
        d: Word,
        a: Word,
        b: Word,
        cut: u8,
    },
    /// Sets d to 1 if a = b, otherwise to 0.
    Equal {
        d: Word,
        a: Word,
        b: Word,
    },
    /// Sets d to 1 if a < b, otherwise to 0.
    Less {
        d: Word,
        a: Word,
        b: Word,
    },
    /// Sets d to 1 if a < b in two's complement, otherwise to 0.
    LessSigned {
        d: Word,
        a: Word,
        b: Word,
    },
    /// Reads a field of the stack's last header. `a` is the word of this field in the stack's first
    /// header.
    Last {
        d: Word,
        a: Word,
        stack: u16,
    },

    // Operations on lines.
    WideCopy {
        d: LineIndex,
        a: LineIndex,
        n: u8,
    },
    WideAdd {
        d: LineIndex,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    WideSub {
        d: LineIndex,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    WideAnd {
        d: LineIndex,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    WideOr {
        d: LineIndex,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    WideXor {
        d: LineIndex,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    /// Computes d = a + b in each lane of 32 bits, without a carry from lane to lane.
    LanesAdd {
        d: LineIndex,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    /// Multiplies. `d` must differ from `a` and `b`.
    WideMul {
        d: LineIndex,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    /// Shifts to the left by the word `b`.
    WideShl {
        d: LineIndex,
        a: LineIndex,
        b: Word,
        n: u8,
    },
    /// Shifts to the right by the word `b`, filling with zeros.
    WideShr {
        d: LineIndex,
        a: LineIndex,
        b: Word,
        n: u8,
    },
    /// Sets the word d to 1 if a = b, otherwise to 0.
    WideEqual {
        d: Word,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    /// Sets the word d to 1 if a < b, otherwise to 0.
    WideLess {
        d: Word,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    /// Sets the word d to 1 if a < b in two's complement, otherwise to 0.
    WideLessSigned {
        d: Word,
        a: LineIndex,
        b: LineIndex,
        n: u8,
    },
    /// Copies the lowest bits of lines to a word.
    Narrow {
        d: Word,
        a: LineIndex,
        cut: u8,
    },
    /// Copies a word to lines, with zeros above it.
    Widen {
        d: LineIndex,
        a: Word,
        n: u8,
    },
    /// Copies `from` lines to `n` lines, with zeros above them.
    Extend {
        d: LineIndex,
        a: LineIndex,
        from: u8,
        n: u8,
    },

    // Control flow.
    Jump {
        to: CodeIndex,
    },
    JumpEqual {
        a: Word,
        b: Word,
        to: CodeIndex,
    },
    JumpUnequal {
        a: Word,
        b: Word,
        to: CodeIndex,
    },
    JumpLess {
        a: Word,
        b: Word,
        to: CodeIndex,
    },
    JumpNotLess {
        a: Word,
        b: Word,
        to: CodeIndex,
    },
    /// Looks up the table, runs the action that it found, and continues with the next instruction.
    Apply {
        table: u16,
    },
    /// Jumps if the last [`Op::Apply`] found an entry.
    JumpHit {
        to: CodeIndex,
    },
    /// Jumps if the last [`Op::Apply`] ran this action.
    JumpAction {
        action: u16,
        to: CodeIndex,
    },

    /// Counts a jump back in an action, and ends the run after too many.
    Again,

    // The parser.
    /// Counts a jump back to a parser state, and ends the run after too many.
    Visit,
    Extract {
        header: u16,
    },
    /// Extracts a header with fields that are moved bit by bit. A field of variable length becomes
    /// empty.
    ExtractLoose {
        header: u16,
    },
    /// Extracts a header whose field of variable length has the given number of bits.
    ExtractVariable {
        header: u16,
        bits: Word,
    },
    ExtractNext {
        stack: u16,
    },
    /// Ends the run, because a stack is full.
    StackFull,
    /// Skips the given number of bits of the packet.
    Advance {
        bits: Word,
    },
    /// Reads bits of the packet that are not extracted yet.
    Lookahead {
        d: Word,
        offset: u16,
        bits: u8,
    },
    /// Sets d to 1 if a value set has the key, otherwise to 0.
    InSet {
        d: Word,
        set: u16,
        key: Word,
    },
    /// Sets d to 1 if a value set has the key, which is wider than 64 bits; otherwise to 0.
    WideInSet {
        d: Word,
        set: u16,
        key: LineIndex,
        n: u8,
    },
    /// Reads more than 64 bits of the packet that are not extracted yet.
    WideLookahead {
        d: LineIndex,
        offset: u16,
        bits: u16,
    },
    /// Sets `parser_error` to the word and ends the run.
    Fail {
        error: Word,
    },

    // Headers.
    SetValid {
        header: u16,
    },
    SetInvalid {
        header: u16,
    },
    /// Copies a whole header with its validity.
    CopyHeader {
        d: u16,
        a: u16,
    },
    Push {
        stack: u16,
        by: u16,
    },
    Pop {
        stack: u16,
        by: u16,
    },

    // Operations on the state that is kept between packets.
    Count {
        counter: u16,
        index: Word,
    },
    /// Marks the packet with a meter, and sets d to its colour.
    Meter {
        d: Word,
        meter: u16,
        index: Word,
        cut: u8,
    },
    RegisterRead {
        d: Word,
        register: u16,
        index: Word,
    },
    RegisterWrite {
        a: Word,
        register: u16,
        index: Word,
    },
    WideRegisterRead {
        d: LineIndex,
        register: u16,
        index: Word,
    },
    /// Writes lines to a cell, and the following lines to the cells of the next `more` registers.
    /// All these cells have one index. The next `more` instructions would write the following lines
    /// one by one. They are skipped if the cells exist.
    WideRegisterWrite {
        a: LineIndex,
        register: u16,
        index: Word,
        more: u8,
    },
    /// Adds register cells to lines, and writes the sums to the cells, in one pass.
    ///
    /// It does the work of an [`Op::WideRegisterRead`] to `d` and of the next two instructions.
    /// These are an [`Op::LanesAdd`] that adds `d` to other lines, and an [`Op::WideRegisterWrite`]
    /// of the sums to the same cell. It does the same with the next `more` registers, whose sums
    /// are in consecutive lines. If the cells exist, the instructions that it replaces are skipped.
    LanesAddToRegister {
        d: LineIndex,
        register: u16,
        index: Word,
        more: u8,
    },

    // Checksums.
    VerifyChecksum {
        checksum: u16,
    },
    UpdateChecksum {
        checksum: u16,
    },

    // Operations that only a few programs use.
    /// Computes a hash or a checksum.
    Calculate {
        d: Word,
        calculation: u16,
    },
    /// Computes the remainder of a / b; 0 if b is 0.
    Remainder {
        d: Word,
        a: Word,
        b: Word,
    },
    /// Makes a random number from `low` to `high`. `high` is at least `low`.
    Random {
        d: Word,
        low: Word,
        high: Word,
    },
    /// Truncates the packet to the given number of bytes when it leaves.
    Truncate {
        bytes: Word,
    },
    /// Logs a message.
    Say {
        message: u16,
    },

    /// Reports a step to the packet log. Only a program that was loaded for logging has this instruction.
    Note {
        note: u16,
    },

    /// Marks the packet to be dropped, unless the program sets another destination afterwards.
    MarkToDrop,

    // Requests that the switch carries out after the running control. The fields of a list are
    // preserved.
    /// Copies the packet to the replicas of the session that the word names.
    Clone {
        session: Word,
        list: u16,
    },
    /// Begins ingress again with the frame as received.
    Resubmit {
        list: u16,
    },
    /// Sends the values of a digest's fields to the controller.
    Digest {
        list: u16,
    },
    /// Begins ingress again with the frame as it would leave.
    Recirculate {
        list: u16,
    },
}

const _: () = assert!(size_of::<Op>() == 8);

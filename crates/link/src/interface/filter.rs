//! A filter that selects the frames for a socket's ring: a program for the kernel's packet filter
//! (classic BPF).

use std::io;
use std::os::fd::OwnedFd;

use socket2::{SockFilter, SockRef};

use crate::Mark;

// Instructions from linux/bpf_common.h, without their operands.
const LOAD_HALFWORD: u16 = 0x28;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const WHOLE_FRAME: u32 = u32::MAX;
const NOTHING: u32 = 0;
/// An instruction that keeps no byte of a packet. It is the end of a program, or a whole program.
pub(super) const KEEP_NOTHING: SockFilter = SockFilter::new(RETURN, 0, 0, NOTHING);

/// Lets only frames with all these marks into the ring. The kernel replaces one filter by another
/// without a gap.
///
/// # Errors
/// The kernel's errors. The kernel accepts at most 4,096 instructions, and each mark needs two.
pub(super) fn pass_only(socket: &OwnedFd, marks: &[Mark]) -> io::Result<()> {
    SockRef::from(socket).attach_filter(&program(marks)?)
}

/// Builds a program that compares one mark after the other. If a mark is behind the end of a frame,
/// the kernel ends the program and drops the frame.
fn program(marks: &[Mark]) -> io::Result<Vec<SockFilter>> {
    let mut program = Vec::with_capacity(2 * marks.len() + 2);
    for (index, mark) in marks.iter().enumerate() {
        // The distance from the next instruction to the last instruction.
        let to_the_end = u8::try_from(2 * (marks.len() - index) - 1).map_err(io::Error::other)?;
        let at = u32::try_from(mark.at).map_err(io::Error::other)?;
        program.push(SockFilter::new(LOAD_HALFWORD, 0, 0, at));
        program.push(SockFilter::new(JUMP_IF_EQUAL, 0, to_the_end, mark.value.into()));
    }
    program.push(SockFilter::new(RETURN, 0, 0, WHOLE_FRAME));
    program.push(KEEP_NOTHING);
    Ok(program)
}

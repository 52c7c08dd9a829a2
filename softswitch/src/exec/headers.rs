//! Instructions on headers: parsing, adding, removing and moving them, and writing them to a frame.

use super::{Flow, MAX_VISITS, Packet, State, wire};
use crate::program::{Header, Op, Program};

impl State {
    /// Runs an instruction of the parser or on whole headers.
    pub(super) fn run_on_headers(&mut self, program: &Program, packet: &mut Packet<'_>, op: Op) -> Flow {
        let standard = &program.standard;
        match op {
            Op::ExtractNext { stack } => return self.extract_next(program, packet, stack),
            Op::Visit => {
                packet.visits += 1;
                if packet.visits > MAX_VISITS {
                    return self.fail(program, standard.parser_timeout);
                }
            }
            Op::Advance { bits } => {
                let cursor = packet.cursor.saturating_add(self.get(bits) as usize);
                // BMv2 cannot begin a header inside a byte either.
                if cursor > packet.frame.len() * 8 || !cursor.is_multiple_of(8) {
                    return self.fail(program, standard.packet_too_short);
                }
                packet.cursor = cursor;
            }
            Op::Lookahead { d, offset, bits } => match look_ahead(packet, offset, bits) {
                Some(value) => self.set(d, value),
                None => return self.fail(program, standard.packet_too_short),
            },
            Op::Fail { error } => return self.fail(program, self.get(error)),
            Op::SetValid { header } => self.set_valid(program, header),
            Op::SetInvalid { header } => self.set(program.headers[usize::from(header)].word, 0),
            Op::CopyHeader { d, a } => self.copy_header(program, d, a),
            Op::Push { stack, by } => self.push(program, stack, by),
            Op::Pop { stack, by } => self.pop(program, stack, by),
            // The callers handle all others.
            _ => {}
        }
        Flow::Continue(())
    }

    /// Ends the parser; what was extracted so far stays.
    fn fail(&mut self, program: &Program, error: u64) -> Flow {
        self.set(program.standard.parser_error, error);
        Flow::Break(())
    }

    #[inline(always)]
    pub(super) fn extract(&mut self, program: &Program, packet: &mut Packet<'_>, header: u16) -> Flow {
        let header = program.headers[usize::from(header)];
        let format = &program.formats[usize::from(header.format)];
        let bytes = packet.payload();
        if bytes.len() < format.bytes {
            return self.fail(program, program.standard.packet_too_short);
        }
        wire::extract(format, header, bytes, &mut *self.words, &mut self.lines);
        packet.cursor += format.bytes * 8;
        Flow::Continue(())
    }

    fn extract_next(&mut self, program: &Program, packet: &mut Packet<'_>, stack: u16) -> Flow {
        let stack = program.stacks[usize::from(stack)];
        let count = self.get(stack.count);
        if count >= u64::from(stack.size) {
            return self.fail(program, program.standard.stack_out_of_bounds);
        }
        let flow = self.extract(program, packet, stack.first + count as u16);
        if flow.is_continue() {
            self.set(stack.count, count + 1);
        }
        flow
    }

    /// Makes a header valid with all fields zero: nothing of an earlier packet shows.
    fn set_valid(&mut self, program: &Program, header: u16) {
        let header = program.headers[usize::from(header)];
        if self.get(header.word) == 0 {
            self.clear_header(program, header);
            self.set(header.word, 1);
        }
    }

    fn clear_header(&mut self, program: &Program, header: Header) {
        let format = &program.formats[usize::from(header.format)];
        let (word, line) = (usize::from(header.word), usize::from(header.line));
        self.words[word..word + usize::from(format.words)].fill(0);
        self.lines[line..line + usize::from(format.lines)].as_flattened_mut().fill(0);
    }

    fn copy_header(&mut self, program: &Program, d: u16, a: u16) {
        let (d, a) = (program.headers[usize::from(d)], program.headers[usize::from(a)]);
        let format = &program.formats[usize::from(d.format)];
        let (word, line) = (usize::from(a.word), usize::from(a.line));
        self.words.copy_within(word..word + usize::from(format.words), d.word.into());
        self.lines.copy_within(line..line + usize::from(format.lines), d.line.into());
    }

    /// Moves a stack's headers towards its end; the first ones become invalid.
    fn push(&mut self, program: &Program, stack: u16, by: u16) {
        let stack = program.stacks[usize::from(stack)];
        let by = by.min(stack.size);
        for index in (by..stack.size).rev() {
            self.copy_header(program, stack.first + index, stack.first + index - by);
        }
        for index in 0..by {
            self.clear_header(program, program.headers[usize::from(stack.first + index)]);
        }
        let count = self.get(stack.count) + u64::from(by);
        self.set(stack.count, count.min(stack.size.into()));
    }

    /// Moves a stack's headers towards its beginning; the last ones become invalid.
    fn pop(&mut self, program: &Program, stack: u16, by: u16) {
        let stack = program.stacks[usize::from(stack)];
        let by = by.min(stack.size);
        for index in by..stack.size {
            self.copy_header(program, stack.first + index - by, stack.first + index);
        }
        for index in stack.size - by..stack.size {
            self.clear_header(program, program.headers[usize::from(stack.first + index)]);
        }
        self.set(stack.count, self.get(stack.count).saturating_sub(by.into()));
    }

    /// [`State::emit`], with the processor's wide vectors if it has them.
    #[allow(unsafe_code)]
    pub(crate) fn deparse(&self, program: &Program, packet: &Packet<'_>, out: &mut [u8]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.vectors {
            // SAFETY: `vectors` says that the processor has these features.
            return unsafe { self.emit_with_vectors(program, packet, out) };
        }
        self.emit(program, packet, out)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
    fn emit_with_vectors(&self, program: &Program, packet: &Packet<'_>, out: &mut [u8]) -> usize {
        self.emit(program, packet, out)
    }

    /// Writes the frame to the beginning of `out`, which has room for all headers and the payload, and returns
    /// its length.
    #[inline(always)]
    fn emit(&self, program: &Program, packet: &Packet<'_>, out: &mut [u8]) -> usize {
        let mut end = 0;
        for header in &program.deparser {
            let header = program.headers[usize::from(*header)];
            if self.get(header.word) != 0 {
                let format = &program.formats[usize::from(header.format)];
                wire::emit(format, header, &*self.words, &self.lines, &mut out[end..end + format.bytes]);
                end += format.bytes;
            }
        }
        let payload = packet.payload();
        out[end..end + payload.len()].copy_from_slice(payload);
        end + payload.len()
    }
}

/// Reads `bits` bits of the packet, `offset` bits ahead.
fn look_ahead(packet: &Packet<'_>, offset: u16, bits: u8) -> Option<u64> {
    let begin = packet.cursor.checked_add(usize::from(offset))?;
    let end = begin + usize::from(bits);
    let bytes = packet.frame.get(begin / 8..end.div_ceil(8))?;
    let value = bytes.iter().fold(0_u128, |value, byte| value << 8 | u128::from(*byte));
    let value = value >> (end.next_multiple_of(8) - end);
    Some(value as u64 & (u64::MAX >> (64 - bits)))
}

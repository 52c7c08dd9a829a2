//! Instructions on headers: parsing, adding, removing and moving them, and writing them to a frame.

use super::{Flow, MAX_ROUNDS, MAX_VISITS, MachineState, Packet, bits, wire};
use crate::lines::clear;
use crate::program::{Format, Header, LIMBS, Op, Program, WORDS};

impl MachineState {
    /// Runs an instruction of the parser or on whole headers.
    pub(super) fn run_on_headers(&mut self, program: &Program, packet: &mut Packet<'_>, op: Op) -> Flow {
        let standard = &program.standard;
        match op {
            Op::ExtractNext { stack } => return self.extract_next(program, packet, stack),
            Op::ExtractLoose { header } => return self.extract_loose(program, packet, header, 0),
            Op::ExtractVariable { header, bits } => {
                let bits = self.get(bits);
                return self.extract_loose(program, packet, header, bits as usize);
            }
            Op::StackFull => return self.fail(program, standard.stack_out_of_bounds),
            Op::Visit => {
                packet.visits += 1;
                if packet.visits > MAX_VISITS {
                    return self.fail(program, standard.parser_timeout);
                }
            }
            Op::Again => {
                packet.rounds += 1;
                if packet.rounds > MAX_ROUNDS {
                    return Flow::Break(());
                }
            }
            Op::Advance { bits } => {
                let cursor = packet.cursor.saturating_add(self.get(bits) as usize);
                // A header cannot begin inside a byte, as on BMv2.
                if !cursor.is_multiple_of(8) {
                    return self.fail(program, standard.invalid_argument);
                }
                if cursor > packet.frame.len() * 8 {
                    return self.fail(program, standard.packet_too_short);
                }
                packet.cursor = cursor;
            }
            Op::Lookahead { d, offset, bits } => match look_ahead(packet, offset, bits) {
                Some(value) => self.set(d, value),
                None => return self.fail(program, standard.packet_too_short),
            },
            Op::WideLookahead { d, offset, bits } => {
                let begin = packet.cursor.saturating_add(offset.into());
                if begin + usize::from(bits) > packet.frame.len() * 8 {
                    return self.fail(program, standard.packet_too_short);
                }
                let first = usize::from(d);
                let lines = &mut self.lines[first..first + usize::from(bits).div_ceil(LIMBS * 64)];
                bits::read_limbs(packet.frame, begin, bits.into(), lines.as_flattened_mut());
            }
            Op::Fail { error } => return self.fail(program, self.get(error)),
            Op::SetValid { header } => self.set_valid(program, packet, header),
            Op::SetInvalid { header } => self.set_invalid(program, packet, header),
            Op::CopyHeader { d, a } => self.copy_header(program, d, a),
            Op::Push { stack, by } => self.push(program, stack, by),
            Op::Pop { stack, by } => self.pop(program, stack, by),
            // The callers handle all other instructions.
            _ => {}
        }
        Flow::Continue(())
    }

    /// Ends the parser with an error. Headers that were extracted before stay valid.
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

    /// Extracts a header with loose fields, or with a field of variable length, which has `variable` bits.
    fn extract_loose(
        &mut self,
        program: &Program,
        packet: &mut Packet<'_>,
        header: u16,
        variable: usize,
    ) -> Flow {
        let standard = &program.standard;
        let header = program.headers[usize::from(header)];
        let format = &program.formats[usize::from(header.format)];
        if !variable.is_multiple_of(8) {
            return self.fail(program, standard.invalid_argument);
        }
        let (bytes, length) = (packet.payload(), format.bytes.saturating_add(variable / 8));
        if bytes.len() < length {
            return self.fail(program, standard.packet_too_short);
        }
        if length > format.most_bytes {
            return self.fail(program, standard.header_too_short);
        }
        wire::extract(format, header, bytes, &mut *self.words, &mut self.lines);
        bits::extract(format, header, bytes, variable, &mut *self.words, &mut self.lines);
        packet.cursor += length * 8;
        Flow::Continue(())
    }

    fn extract_next(&mut self, program: &Program, packet: &mut Packet<'_>, stack: u16) -> Flow {
        let stack = program.stacks[usize::from(stack)];
        let count = self.get(stack.count);
        if count >= u64::from(stack.size) {
            return self.fail(program, program.standard.stack_out_of_bounds);
        }
        let header = stack.first + count as u16;
        let format = &program.formats[usize::from(program.headers[usize::from(header)].format)];
        let flow = if format.loose.is_empty() && format.variable.is_none() {
            self.extract(program, packet, header)
        } else {
            self.extract_loose(program, packet, header, 0)
        };
        if flow.is_continue() {
            self.set(stack.count, count + 1);
        }
        flow
    }

    /// Makes a header valid and sets its fields to zero, so that no value of an earlier packet
    /// remains.
    fn set_valid(&mut self, program: &Program, packet: &mut Packet<'_>, header: u16) {
        let header = program.headers[usize::from(header)];
        if self.get(header.word) == 0 {
            self.clear_header(program, header);
            self.set(header.word, 1);
            packet.length += program.formats[usize::from(header.format)].bytes;
        }
    }

    fn set_invalid(&mut self, program: &Program, packet: &mut Packet<'_>, header: u16) {
        let header = program.headers[usize::from(header)];
        if self.get(header.word) != 0 {
            let bytes = header_bytes(&program.formats[usize::from(header.format)], header, &self.words);
            packet.length = packet.length.saturating_sub(bytes);
            self.set(header.word, 0);
        }
    }

    fn clear_header(&mut self, program: &Program, header: Header) {
        let format = &program.formats[usize::from(header.format)];
        let (word, line) = (usize::from(header.word), usize::from(header.line));
        self.words[word..word + usize::from(format.words)].fill(0);
        clear(&mut self.lines[line..line + usize::from(format.lines)]);
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

    /// Writes the frame like [`MachineState::emit`], with the processor's wide vectors if it has them.
    #[allow(unsafe_code)]
    pub(crate) fn deparse(&self, program: &Program, packet: &Packet<'_>, out: &mut [u8]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.vectors {
            // SAFETY: `vectors` is true only if the processor has these features.
            return unsafe { self.emit_with_vectors(program, packet, out) };
        }
        self.emit(program, packet, out)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
    fn emit_with_vectors(&self, program: &Program, packet: &Packet<'_>, out: &mut [u8]) -> usize {
        self.emit(program, packet, out)
    }

    /// Writes the frame to the beginning of `out`, which has room for all headers and the payload,
    /// and returns its length.
    #[inline(always)]
    fn emit(&self, program: &Program, packet: &Packet<'_>, out: &mut [u8]) -> usize {
        let mut end = 0;
        for header in &program.deparser {
            let header = program.headers[usize::from(*header)];
            if self.get(header.word) != 0 {
                let format = &program.formats[usize::from(header.format)];
                let bytes = header_bytes(format, header, &self.words);
                wire::emit(format, header, &*self.words, &self.lines, &mut out[end..end + bytes]);
                end += bytes;
            }
        }
        let payload = packet.payload();
        out[end..end + payload.len()].copy_from_slice(payload);
        end + payload.len()
    }
}

/// Returns a header's length in bytes.
#[inline(always)]
pub(super) fn header_bytes(format: &Format, header: Header, words: &[u64; WORDS]) -> usize {
    format.bytes + format.variable.map_or(0, |field| field.bits_of(header, words) / 8)
}

/// Reads `bits` bits of the packet, from `offset` bits behind the cursor on.
fn look_ahead(packet: &Packet<'_>, offset: u16, bits: u8) -> Option<u64> {
    let begin = packet.cursor.checked_add(usize::from(offset))?;
    let end = begin + usize::from(bits);
    let bytes = packet.frame.get(begin / 8..end.div_ceil(8))?;
    let value = bytes.iter().fold(0_u128, |value, byte| value << 8 | u128::from(*byte));
    let value = value >> (end.next_multiple_of(8) - end);
    Some(value as u64 & (u64::MAX >> (64 - bits)))
}

//! The INA message: header, hop stack, values. It is the payload of a UDP datagram.

use crate::constants::{
    FLAG_MAX, FLAG_PROBE, FLAG_RELAY, FLAG_RETRANSMIT, HOP_BYTES, INA_HEADER_BYTES, INA_VERSION,
    KIND_GRADIENT, KIND_RESULT, MAX_HOPS,
};
use crate::error::WireError;
use crate::hop::Hop;
use crate::ids::{JobId, Rank};
use crate::seq::Seq;
use crate::values::{self, ValuesView};
use crate::width::SliceWidth;

/// The offset of the job id in a message.
pub(crate) const JOB_AT: usize = 2;

/// The direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Towards the server.
    Gradient,
    /// Towards the workers.
    Result,
}

/// The operator that combines the values of slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// 32-bit addition.
    Sum,
    /// The larger of two unsigned 31-bit numbers.
    Max,
    /// None: one worker sends the values, and the server sends them to all workers.
    /// Switches do not read them.
    Relay,
}

/// The header fields that switches always add, also if they combine the values by maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Totals {
    /// The number of workers whose gradients are included.
    pub contributors: u32,
    /// The sum of the weights of these workers.
    pub weight: u32,
    /// The sum of the tags of these workers.
    pub tag: Tag,
}

/// The number of bits of a header's contributors that count them.
const COUNT_BITS: u32 = 16;

impl Totals {
    /// Returns the number of workers, without the [owner](Self::owner).
    pub fn count(self) -> u32 {
        self.contributors & ((1 << COUNT_BITS) - 1)
    }

    /// Returns the worker that receives the sums of a slice; `None` if all workers receive them.
    /// The higher bits of the contributors are 1 + its rank, or 0.
    pub fn owner(self) -> Option<Rank> {
        let owner = (self.contributors >> COUNT_BITS).checked_sub(1)?;
        u16::try_from(owner).ok().map(Rank::new)
    }

    /// Returns the contributors of `count` workers, with the owner of the slice if it has one.
    pub fn contributors_of(count: u32, owner: Option<Rank>) -> u32 {
        count | owner.map_or(0, |owner| (u32::from(owner.get()) + 1) << COUNT_BITS)
    }

    /// Adds the totals of another message like switches do: each number mod 2^32.
    pub fn add(&mut self, other: Self) {
        self.contributors = self.contributors.wrapping_add(other.contributors);
        self.weight = self.weight.wrapping_add(other.weight);
        self.tag.high = self.tag.high.wrapping_add(other.tag.high);
        self.tag.low = self.tag.low.wrapping_add(other.tag.low);
    }
}

/// The authenticator of a message, or the sum of several.
/// It is a number in two digits, and switches add each digit separately. The digits of tags are so small that their
/// sums do not wrap around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tag {
    /// The high digit.
    pub high: u32,
    /// The low digit.
    pub low: u32,
}

/// The fields of the INA header that do not follow from the rest of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The direction in which the message travels.
    pub kind: Kind,
    /// The operator that combines the slice's values.
    pub operator: Operator,
    /// True if the worker has sent this slice before.
    pub retransmit: bool,
    /// The generation of the job to which the message belongs.
    pub job: JobId,
    /// The rank of the worker that sends or receives the message.
    pub rank: Rank,
    /// The number of the slice.
    pub seq: Seq,
    /// The totals of the included gradients.
    pub totals: Totals,
}

/// A message to write. `values` is `None` in a PROBE and in an acknowledgement.
/// A PROBE requests a result. An acknowledgement is a RESULT that shows only that a slice is finished. The operator of
/// both must not be [`Operator::Relay`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The header of the message.
    pub header: Header,
    /// The hop stack, with the next switch first; at most [`MAX_HOPS`] entries.
    pub hops: &'a [Hop],
    /// The values of the slice. Their number must be the number of values of a [`SliceWidth`].
    pub values: Option<&'a [i32]>,
}

impl Message<'_> {
    /// Returns the length on the wire in bytes, from the INA header on.
    pub fn len(&self) -> usize {
        message_len(self.hops.len(), self.values.map_or(0, size_of_val))
    }

    /// Returns false, because a message always has a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message to the start of `out`.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if `out` is too short; [`WireError::Bad`] if the stack is too deep, a hop's child is
    /// out of range, a relayed message has no values, or no slice width has this number of values.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), WireError> {
        let (len, got) = (self.len(), out.len());
        let out = out.get_mut(..len).ok_or(WireError::Truncated { part: "buffer", needed: len, got })?;
        let (head, rest) = out.split_at_mut(INA_HEADER_BYTES);
        head.copy_from_slice(&self.header_bytes()?);
        let (stack, values) = rest.split_at_mut(self.hops.len() * HOP_BYTES);
        for (hop, entry) in self.hops.iter().zip(stack.as_chunks_mut::<HOP_BYTES>().0) {
            *entry = hop.to_bytes();
            Hop::parse(entry)?;
        }
        if let Some(from) = self.values {
            values::write(from, values);
        }
        Ok(())
    }

    fn header_bytes(&self) -> Result<[u8; INA_HEADER_BYTES], WireError> {
        let h = &self.header;
        let hop_count = u8::try_from(self.hops.len()).unwrap_or(u8::MAX);
        if hop_count > MAX_HOPS {
            return Err(WireError::Bad { field: "hop count", value: self.hops.len() as u64 });
        }
        let (kind, mut flags) = match h.kind {
            Kind::Gradient => (KIND_GRADIENT, 0),
            Kind::Result => (KIND_RESULT, 0),
        };
        // To a switch, a relayed GRADIENT is a PROBE with bytes behind its hop stack.
        let is_relayed = h.kind == Kind::Gradient && h.operator == Operator::Relay && self.values.is_some();
        flags |= match h.operator {
            Operator::Sum => 0,
            Operator::Max => FLAG_MAX,
            Operator::Relay => FLAG_RELAY,
        };
        flags |= if h.retransmit { FLAG_RETRANSMIT } else { 0 };
        flags |= if self.values.is_none() || is_relayed { FLAG_PROBE } else { 0 };
        if self.values.is_none() && h.operator == Operator::Relay {
            return Err(WireError::Bad { field: "flags", value: flags.into() });
        }
        let blocks = match self.values {
            Some(values) => SliceWidth::from_values(values.len())
                .ok_or(WireError::Bad { field: "values", value: values.len() as u64 })?
                .blocks(),
            None => 0,
        };
        let blocks = if is_relayed { 0 } else { blocks };
        let mut out = [0; INA_HEADER_BYTES];
        out[0] = INA_VERSION << 4 | kind;
        out[1] = flags;
        out[JOB_AT..4].copy_from_slice(&h.job.get().to_be_bytes());
        out[4..6].copy_from_slice(&h.rank.get().to_be_bytes());
        out[6] = hop_count;
        out[7] = blocks;
        out[8..12].copy_from_slice(&h.seq.0.to_be_bytes());
        out[12..16].copy_from_slice(&h.totals.contributors.to_be_bytes());
        out[16..20].copy_from_slice(&h.totals.weight.to_be_bytes());
        out[20..24].copy_from_slice(&h.totals.tag.high.to_be_bytes());
        out[24..28].copy_from_slice(&h.totals.tag.low.to_be_bytes());
        Ok(out)
    }
}

/// Returns the length in bytes of a message with `hops` entries and `values` bytes of values.
pub const fn message_len(hops: usize, values: usize) -> usize {
    INA_HEADER_BYTES + hops * HOP_BYTES + values
}

/// A received message. All of its fields are checked. It borrows the bytes and copies only the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageView<'a> {
    header: Header,
    stack: &'a [[u8; HOP_BYTES]],
    values: Option<ValuesView<'a>>,
}

impl<'a> MessageView<'a> {
    /// Checks a UDP payload. It ignores bytes after the message, because Ethernet pads short frames.
    /// All bytes behind the hop stack of a relayed GRADIENT are values.
    ///
    /// # Errors
    /// [`WireError`] names the first field that is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let truncated = |part, needed| WireError::Truncated { part, needed, got: bytes.len() };
        let (head, rest) = bytes
            .split_first_chunk::<INA_HEADER_BYTES>()
            .ok_or_else(|| truncated("INA header", INA_HEADER_BYTES))?;
        let (header, probe) = parse_header(head)?;
        let [hop_count, blocks] = [head[6], head[7]];
        if hop_count > MAX_HOPS {
            return Err(WireError::Bad { field: "hop count", value: hop_count.into() });
        }
        let stack_len = usize::from(hop_count) * HOP_BYTES;
        let fixed = SliceWidth::from_blocks(blocks);
        let fits = if probe { blocks == 0 } else { fixed.is_some() };
        if !fits {
            return Err(WireError::Bad { field: "blocks", value: blocks.into() });
        }
        let width = if probe && header.operator == Operator::Relay {
            let values = rest.len().saturating_sub(stack_len) / size_of::<i32>();
            let bad = WireError::Bad { field: "values", value: values as u64 };
            Some(SliceWidth::from_values(values).ok_or(bad)?)
        } else {
            fixed
        };
        let needed = message_len(hop_count.into(), width.map_or(0, SliceWidth::bytes));
        let (stack, rest) = rest.split_at_checked(stack_len).ok_or_else(|| truncated("hop stack", needed))?;
        let stack = stack.as_chunks::<HOP_BYTES>().0;
        for entry in stack {
            Hop::parse(entry)?;
        }
        let values = match width {
            Some(width) => {
                let values = rest.get(..width.bytes()).ok_or_else(|| truncated("values", needed))?;
                Some(ValuesView::new(values))
            }
            None => None,
        };
        Ok(Self { header, stack, values })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the hop stack, with the next switch first.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + 'a {
        // `parse` has checked every entry, so this skips none.
        self.stack.iter().filter_map(|entry| Hop::parse(entry).ok())
    }

    /// Returns the first entry of the hop stack.
    pub fn first_hop(&self) -> Option<Hop> {
        self.stack.first().and_then(|entry| Hop::parse(entry).ok())
    }

    /// Returns the values; `None` in a PROBE and in an acknowledgement.
    pub fn values(&self) -> Option<ValuesView<'a>> {
        self.values
    }
}

fn parse_header(head: &[u8; INA_HEADER_BYTES]) -> Result<(Header, bool), WireError> {
    let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let bad = |field, value: u16| WireError::Bad { field, value: value.into() };
    if head[0] >> 4 != INA_VERSION {
        return Err(bad("version", (head[0] >> 4).into()));
    }
    let kind = match head[0] & 0xf {
        KIND_GRADIENT => Kind::Gradient,
        KIND_RESULT => Kind::Result,
        other => return Err(bad("kind", other.into())),
    };
    let flags = head[1];
    let probe = flags & FLAG_PROBE != 0;
    let operator = match flags & (FLAG_MAX | FLAG_RELAY) {
        0 => Operator::Sum,
        FLAG_MAX => Operator::Max,
        FLAG_RELAY => Operator::Relay,
        _ => return Err(bad("flags", flags.into())),
    };
    // Switches would add the values of a relayed GRADIENT without the flag PROBE.
    let is_unknown = flags & !(FLAG_MAX | FLAG_RETRANSMIT | FLAG_PROBE | FLAG_RELAY) != 0;
    let is_relayed_wrongly = operator == Operator::Relay && probe != (kind == Kind::Gradient);
    if is_unknown || is_relayed_wrongly {
        return Err(bad("flags", flags.into()));
    }
    let header = Header {
        kind,
        operator,
        retransmit: flags & FLAG_RETRANSMIT != 0,
        job: JobId::new(half(2)).ok_or_else(|| bad("job", half(2)))?,
        rank: Rank::new(half(4)),
        seq: Seq(word(8)),
        totals: Totals {
            contributors: word(12),
            weight: word(16),
            tag: Tag { high: word(20), low: word(24) },
        },
    };
    Ok((header, probe))
}

//! Bounds on received messages. A message that would become far larger in memory than on the wire is
//! refused before it is decoded.
//!
//! An empty message inside another message takes two bytes on the wire, and hundreds after decoding: 40 MB of them
//! become 12 GB. The decoder first scans Protobuf's wire format without its schema. The scan takes no memory and reads
//! each byte at most once. Clients and servers that are generated with [`BoundedCodec`] as their codec use these
//! bounds.

use std::marker::PhantomData;

use prost::Message;
use prost::encoding::decode_varint;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// The codec with which a generated client or server reads and writes messages.
#[derive(Debug, Clone)]
pub struct BoundedCodec<T, U>(PhantomData<fn(T) -> U>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Bounded + Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstCodec::<T, U>::default().decoder())
    }
}

/// A decoder that refuses messages with too many fields.
#[derive(Debug)]
pub struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: Bounded + Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        use prost::bytes::Buf;
        // The buffer has the whole message, because tonic passes messages in one piece.
        if has_more_fields_than(U::MOST_FIELDS, bytes.chunk()) {
            let most = U::MOST_FIELDS;
            return Err(Status::resource_exhausted(format!(
                "a message of more than {most} fields: send it in parts"
            )));
        }
        self.0.decode(bytes)
    }
}

/// A message with a limit on the number of its fields, including the fields of nested messages. Each
/// field takes at most about 300 bytes of memory besides its bytes on the wire.
pub trait Bounded {
    /// The highest number of fields.
    const MOST_FIELDS: usize;
}

/// Sets the highest number of fields of each of these messages.
#[macro_export]
macro_rules! bounded {
    ($most:expr; $($message:ty),+ $(,)?) => {
        $(impl $crate::Bounded for $message {
            const MOST_FIELDS: usize = $most;
        })+
    };
}

/// Returns true if an encoded message has more than `most` fields. Strings and bytes are scanned like
/// messages, because they look alike on the wire. Malformed data counts up to the place where a decoder would stop.
fn has_more_fields_than(most: usize, message: &[u8]) -> bool {
    // A field takes at least two bytes, so most messages need not be scanned.
    if message.len() / 2 <= most {
        return false;
    }
    let mut left = most;
    count(message, &mut left, DEPTH).is_err()
}

/// The deepest nesting that a decoder accepts.
const DEPTH: usize = 100;

/// The error that a message has more fields than allowed.
struct TooMany;

/// Subtracts the number of a message's fields, and of the fields of nested messages, from `left`.
fn count(mut message: &[u8], left: &mut usize, depth: usize) -> Result<(), TooMany> {
    while !message.is_empty() {
        let Some(content) = next_field(&mut message) else { return Ok(()) };
        *left = left.checked_sub(1).ok_or(TooMany)?;
        if depth > 0 {
            count(content, left, depth - 1)?;
        }
    }
    Ok(())
}

/// Returns the content of the next field, which is empty for a number; `None` where a decoder stops.
fn next_field<'a>(message: &mut &'a [u8]) -> Option<&'a [u8]> {
    let key = loop {
        let key = decode_varint(message).ok()?;
        // The key is the beginning or end of a group. Our messages have no groups, and a decoder skips their content.
        if !matches!(key & 7, 3 | 4) {
            break key;
        }
    };
    // No field has the number 0. So a program's binary, which has many zeros, does not count as fields.
    if key >> 3 == 0 {
        return None;
    }
    let length = match key & 7 {
        // The field is a varint.
        0 => {
            decode_varint(message).ok()?;
            0
        }
        1 => return skip(message, 8).map(|_| &[][..]),
        2 => usize::try_from(decode_varint(message).ok()?).ok()?,
        5 => return skip(message, 4).map(|_| &[][..]),
        _ => return None,
    };
    skip(message, length)
}

fn skip<'a>(message: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (content, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(content)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message that can represent any content: nested messages, and bytes.
    #[derive(Clone, PartialEq, Message)]
    struct Tree {
        #[prost(message, repeated, tag = "1")]
        branches: Vec<Tree>,
        #[prost(bytes = "vec", tag = "2")]
        bytes: Vec<u8>,
    }

    fn branches(count: usize) -> Tree {
        Tree { branches: vec![Tree::default(); count], bytes: Vec::new() }
    }

    #[test]
    fn each_empty_message_counts() {
        let bytes = branches(1000).encode_to_vec();
        assert_eq!(bytes.len(), 2000);
        assert!(!has_more_fields_than(1000, &bytes));
        assert!(has_more_fields_than(999, &bytes));
    }

    #[test]
    fn what_is_deep_inside_counts() {
        let mut tree = branches(50);
        for _ in 0..3 {
            tree = Tree { branches: vec![tree], bytes: Vec::new() };
        }
        let bytes = tree.encode_to_vec();
        assert!(!has_more_fields_than(53, &bytes));
        assert!(has_more_fields_than(52, &bytes));
    }

    #[test]
    fn what_is_before_garbage_counts() {
        let mut bytes = branches(1000).encode_to_vec();
        bytes.push(0xff);
        assert!(has_more_fields_than(999, &bytes));
    }

    #[test]
    fn bytes_do_not_count() {
        for byte in [0, b'{', 0xff] {
            let bytes = Tree { branches: Vec::new(), bytes: vec![byte; 5000] }.encode_to_vec();
            assert!(!has_more_fields_than(1, &bytes), "{byte}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_looked_through(bytes: Vec<u8>, most in 0usize..50) {
            let more = has_more_fields_than(most, &bytes);
            // A field takes at least two bytes.
            prop_assert!(!more || bytes.len() > 2 * most);
        }
    }
}

//! Controller headers. Messages have separate fields; on the CPU port, they are packed in front of
//! the frame.

use std::borrow::Cow;

use tributary_p4runtime::canonical;
use tributary_p4runtime::p4::v1::{PacketIn, PacketMetadata, PacketOut};

use super::status::Refusal;
use crate::check::ControllerField;

/// Converts a packet-out to the frame that enters the switch at the CPU port.
/// As with simple_switch_grpc, a field that is left out is 0.
pub(super) fn pack(fields: &[ControllerField], packet: &PacketOut) -> Result<Vec<u8>, Refusal> {
    for (at, one) in packet.metadata.iter().enumerate() {
        let id = one.metadata_id;
        if fields.iter().all(|field| field.id != id) {
            return Err(Refusal::invalid(format!("the program's packet_out header has no field {id}")));
        }
        if packet.metadata[..at].iter().any(|earlier| earlier.metadata_id == id) {
            return Err(Refusal::invalid(format!("the field {id} of the packet_out header is given twice")));
        }
    }
    let mut bits = Bits::default();
    for field in fields {
        let given = packet.metadata.iter().find(|one| one.metadata_id == field.id);
        match given {
            Some(one) => bits.push(&decode(field, &one.value)?, field.bits),
            None => bits.push_zeros(field.bits),
        }
    }
    let mut frame = bits.bytes;
    frame.extend_from_slice(&packet.payload);
    Ok(frame)
}

/// Converts a frame from the CPU port to a packet-in; `None` if it is shorter
/// than the program's header.
pub(super) fn unpack(fields: &[ControllerField], frame: &[u8]) -> Option<PacketIn> {
    let width: usize = fields.iter().map(|field| field.bits as usize).sum();
    let payload = frame.get(width.div_ceil(8)..)?.to_vec();
    let mut at = 0;
    let mut metadata = Vec::with_capacity(fields.len());
    for field in fields {
        let end = at + field.bits as usize;
        let mut value = Bits::default();
        // The value is right-aligned, as in all byte strings.
        value.push_zeros(field.bits.wrapping_neg() % 8);
        (at..end).for_each(|index| value.push_bit(frame[index / 8] >> (7 - index % 8) & 1));
        let value = canonical::check(&value.bytes, field.bits).ok()?.to_vec();
        let value = field.translation.encode(value);
        metadata.push(PacketMetadata { metadata_id: field.id, value });
        at = end;
    }
    Some(PacketIn { payload, metadata })
}

fn decode<'a>(field: &ControllerField, value: &'a [u8]) -> Result<Cow<'a, [u8]>, Refusal> {
    field.translation.decode(value, field.bits).map_err(|reason| {
        Refusal::invalid(format!("the field {} of the packet_out header: {reason}", field.name))
    })
}

/// Bits in wire order; the last byte is filled up with zeros.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn push_bit(&mut self, bit: u8) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= bit << (7 - self.count % 8);
        }
        self.count += 1;
    }

    fn push_zeros(&mut self, count: u32) {
        (0..count).for_each(|_| self.push_bit(0));
    }

    /// Appends the lowest `width` bits of a byte string that fits into them.
    fn push(&mut self, value: &[u8], width: u32) {
        let there = value.len() * 8;
        for index in (0..width as usize).rev() {
            let bit = if index < there { value[value.len() - 1 - index / 8] >> (index % 8) & 1 } else { 0 };
            self.push_bit(bit);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::translation::Translation;

    fn header(widths: &[u32]) -> Vec<ControllerField> {
        let field = |(id, bits): (u32, &u32)| ControllerField {
            id,
            name: format!("f{id}"),
            bits: *bits,
            translation: Translation::None,
        };
        (1..).zip(widths).map(field).collect()
    }

    fn packet(values: &[(u32, &[u8])], payload: &[u8]) -> PacketOut {
        let metadata = values
            .iter()
            .map(|&(metadata_id, value)| PacketMetadata { metadata_id, value: value.to_vec() })
            .collect();
        PacketOut { payload: payload.to_vec(), metadata }
    }

    #[test]
    fn fields_are_packed_from_the_first_bit_on() {
        let port_and_pad = header(&[9, 7]);
        let frame = pack(&port_and_pad, &packet(&[(1, &[1, 254]), (2, &[0])], &[0xaa, 0xbb])).unwrap();
        assert_eq!(frame, [0xff, 0, 0xaa, 0xbb]);
        let left_out = pack(&port_and_pad, &packet(&[(1, &[3])], &[])).unwrap();
        assert_eq!(left_out, [1, 0x80]);
    }

    #[test]
    fn what_does_not_fit_the_header_is_refused() {
        let port_and_pad = header(&[9, 7]);
        for bad in [&[(3, &[0][..])][..], &[(1, &[2, 0])], &[(1, &[])], &[(1, &[0]), (1, &[0])]] {
            assert!(pack(&port_and_pad, &packet(bad, &[])).is_err(), "{bad:?}");
        }
        assert!(pack(&[], &packet(&[(1, &[0])], &[])).is_err());
        assert_eq!(pack(&[], &packet(&[], &[7])), Ok(vec![7]));
        assert_eq!(unpack(&port_and_pad, &[0xff]), None);
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            fields in prop::collection::vec((1u32..200, prop::collection::vec(any::<u8>(), 25)), 0..6),
            payload: Vec<u8>,
        ) {
            let header = header(&fields.iter().map(|(width, _)| *width).collect::<Vec<_>>());
            let values: Vec<(u32, Vec<u8>)> = (1..).zip(&fields).map(|(id, (width, bytes))| {
                let mut bytes = bytes[..width.div_ceil(8) as usize].to_vec();
                bytes[0] &= 0xff >> (width.wrapping_neg() % 8);
                (id, bytes)
            }).collect();
            let borrowed: Vec<(u32, &[u8])> = values.iter().map(|(id, value)| (*id, value.as_slice())).collect();
            let frame = pack(&header, &packet(&borrowed, &payload)).unwrap();
            let back = unpack(&header, &frame).unwrap();
            prop_assert_eq!(back.payload, payload);
            for (metadata, (id, value)) in back.metadata.iter().zip(&values) {
                prop_assert_eq!(metadata.metadata_id, *id);
                let canonical = canonical::check(value, 8 * 25).unwrap();
                prop_assert_eq!(&metadata.value, canonical);
            }
        }
    }
}

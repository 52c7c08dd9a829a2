//! The part of a program's config that only the switch reads: p4c's JSON.

use prost::Message;

use super::status::Refusal;

/// The wrapper in which p4lang's Python controllers send the JSON: `P4DeviceConfig` of PI's first
/// versions.
#[derive(Clone, PartialEq, Message)]
struct Wrapped {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// Returns the JSON from a config that is plain or wrapped. BMv2 accepts both forms, too.
///
/// # Errors
/// The config is neither of the two.
pub(super) fn json(config: &[u8]) -> Result<String, Refusal> {
    // JSON never decodes as this message: its first byte starts a group, and the message has no group.
    let json = match Wrapped::decode(config) {
        Ok(wrapped) if !wrapped.device_data.is_empty() => wrapped.device_data,
        _ => config.to_vec(),
    };
    String::from_utf8(json)
        .map_err(|_| Refusal::invalid("the device config is not text: it has to be the JSON of p4c-bm2-ss"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_comes_plain_or_wrapped() {
        let text = "{\n  \"header_types\" : []\n}";
        assert_eq!(json(text.as_bytes()).unwrap(), text);
        // Field 1, `reassign`, is true; field 3 has the JSON.
        let wrapped = [&[0x08, 1, 0x1a, text.len() as u8], text.as_bytes()].concat();
        assert_eq!(json(&wrapped).unwrap(), text);
    }

    #[test]
    fn what_is_neither_is_refused_or_not_taken_apart() {
        assert!(json(&[0xff, 0xfe]).is_err());
        assert_eq!(json(b"").unwrap(), "");
        assert_eq!(json(b"[1]").unwrap(), "[1]");
    }
}

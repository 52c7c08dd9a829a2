//! Values in the forms that people write: numbers, addresses, and numbers in text.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Number, Value};

use crate::canonical;

/// The possible values, for errors.
const POSSIBLE: &str =
    r#"a number, or text such as "10.0.1.1", "08:00:00:00:01:11", "2001:db8::1", "0x1f" or "31""#;

/// Returns the canonical bytes of a value, which must fit into `width` bits.
///
/// # Errors
/// A text that describes the problem with the value.
pub(super) fn bytes(value: &Value, width: u32) -> Result<Vec<u8>, String> {
    let bytes = match value {
        // The tutorials allow a value in brackets.
        Value::Array(one) if one.len() == 1 => return bytes(&one[0], width),
        Value::Number(number) => of_number(number, width)?,
        Value::String(text) => of_text(text, width)?,
        other => return Err(format!("{other} is no value: {POSSIBLE} is needed")),
    };
    let canonical = canonical::check(&bytes, width).map_err(|error| format!("{value}: {error}"))?;
    Ok(canonical.to_vec())
}

fn of_number(number: &Number, width: u32) -> Result<Vec<u8>, String> {
    if let Some(number) = number.as_u64() {
        return Ok(number.to_be_bytes().to_vec());
    }
    match number.as_i64() {
        Some(negative) => of_negative(negative, width),
        None => Err(format!("{number} is no whole number of at most 64 bits: write it as text, \"0x…\"")),
    }
}

/// Returns a negative number in two's complement of `width` bits, the form of `int<width>`.
fn of_negative(number: i64, width: u32) -> Result<Vec<u8>, String> {
    let needed = u64::BITS - number.leading_ones() + 1;
    if needed > width {
        return Err(format!("{number} needs {needed} bits, and there are {width}"));
    }
    let length = width.div_ceil(u8::BITS) as usize;
    let number = number.to_be_bytes();
    let mut bytes = vec![u8::MAX; length.max(number.len())];
    let at = bytes.len() - number.len();
    bytes[at..].copy_from_slice(&number);
    bytes.drain(..bytes.len() - length);
    let unused = length as u32 * u8::BITS - width;
    if let Some(first) = bytes.first_mut() {
        *first &= u8::MAX >> unused;
    }
    Ok(bytes)
}

fn of_text(text: &str, width: u32) -> Result<Vec<u8>, String> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return hexadecimal(digits).ok_or_else(|| format!("{text:?} is no hexadecimal number"));
    }
    if let Some(address) = mac_address(text) {
        return of_address("a MAC address", text, &address, width);
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return of_address("an IPv4 address", text, &address.octets(), width);
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return of_address("an IPv6 address", text, &address.octets(), width);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = text.parse::<u128>();
        let number = number.map_err(|_| format!("{text:?} has more than 128 bits: write it as \"0x…\""))?;
        return Ok(canonical::encode(number));
    }
    Err(format!("{text:?} is no value: {POSSIBLE} is needed"))
}

fn of_address(what: &str, text: &str, address: &[u8], width: u32) -> Result<Vec<u8>, String> {
    let bits = address.len() as u32 * u8::BITS;
    if bits == width {
        Ok(address.to_vec())
    } else {
        Err(format!("{text:?} is {what}, which has {bits} bits"))
    }
}

/// Returns the bytes of any number of hexadecimal digits.
fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let nibbles = digits.chars().map(|digit| digit.to_digit(16).and_then(|nibble| u8::try_from(nibble).ok()));
    let mut nibbles = nibbles.collect::<Option<Vec<u8>>>()?;
    if nibbles.is_empty() {
        return None;
    }
    if !nibbles.len().is_multiple_of(2) {
        nibbles.insert(0, 0);
    }
    let (pairs, _) = nibbles.as_chunks();
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn mac_address(text: &str) -> Option<[u8; 6]> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut address {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = *hexadecimal(part)?.first()?;
    }
    parts.next().is_none().then_some(address)
}

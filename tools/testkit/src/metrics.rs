//! A daemon's metrics, as Prometheus receives them.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

/// Reads `/metrics` at this address.
///
/// # Errors
/// No server answers at the address.
pub fn page(address: impl ToSocketAddrs) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// Returns the value of a sample on a page. `sample` is its name and labels, in Prometheus's notation.
pub fn value(page: &str, sample: &str) -> f64 {
    let value = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{sample} is not in:\n{page}")).parse().unwrap()
}

//! Offloads of an interface that merge received frames. A switch's port must not have them, because
//! the port cannot split merged TCP frames again.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice};

use super::socket::{ask_driver, failed};
use crate::error::LinkError;

/// Numbers of requests to the driver, from `linux/ethtool.h`.
const STRINGS: u32 = 0x1b;
const SET_SIZES: u32 = 0x37;
const FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
/// The number of the set of strings with the features' names.
const FEATURE_NAMES: u32 = 4;

/// The most features for which this module has room. Linux 6.18 has 60.
const MOST_FEATURES: usize = 128;
/// The number of blocks: the kernel reads and sets features in blocks of 32.
const MOST_BLOCKS: usize = MOST_FEATURES.div_ceil(BLOCK);
const BLOCK: usize = u32::BITS as usize;
/// The length of a feature's name, in 32-bit words.
const NAME_WORDS: usize = 8;
const NAMES: Range<usize> = 3..3 + MOST_FEATURES * NAME_WORDS;

/// The merging offloads, by the kernel's name and by ethtool's name.
const MERGING: [(&str, &str); 3] = [("rx-gro", "gro"), ("rx-lro", "lro"), ("rx-gro-hw", "rx-gro-hw")];

/// An offload of an interface.
struct Feature {
    /// The feature's number in the kernel's list.
    bit: usize,
    /// The feature's name for `ethtool -K`.
    name: &'static str,
}

/// The result of switching off the merging offloads of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merging {
    /// Offloads that this call has switched off, by ethtool's names.
    pub switched_off: Vec<&'static str>,
    /// Offloads that are still on, because the caller lacks the capability `CAP_NET_ADMIN`, or because
    /// the driver refuses the change.
    pub still_on: Vec<&'static str>,
}

impl Merging {
    /// Switches off the offloads that merge received frames at the interface `name` of the calling
    /// thread's network namespace.
    ///
    /// # Errors
    /// [`LinkError::NoInterface`], or [`LinkError::Interface`] with the step that failed.
    pub fn switch_off(name: &str) -> Result<Self, LinkError> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)
            .map_err(|errno| failed(name, "open a socket", errno))?;
        netdevice::name_to_index(&socket, name).map_err(|errno| failed(name, "find the index", errno))?;
        let mut merging = Self::default();
        for feature in
            merging_features(&socket, name).map_err(|errno| failed(name, "list offloads", errno))?
        {
            let is_on =
                || is_on(&socket, name, feature.bit).map_err(|errno| failed(name, "read offloads", errno));
            if !is_on()? {
                continue;
            }
            // The next line checks the effect.
            let _ = switch_off(&socket, name, feature.bit);
            if is_on()? { &mut merging.still_on } else { &mut merging.switched_off }.push(feature.name);
        }
        Ok(merging)
    }
}

/// Returns the merging offloads that the kernel knows.
fn merging_features(socket: &OwnedFd, interface: &str) -> Result<Vec<Feature>, Errno> {
    // The request has a mask of 64 bits with one bit set; the answer is the size of that set.
    let [low, high] = halves(1 << FEATURE_NAMES);
    let [.., count] = ask_driver(socket, interface, [SET_SIZES, 0, low, high, 0])?;
    if count as usize > MOST_FEATURES {
        return Err(Errno::OVERFLOW);
    }
    let mut question = [0; NAMES.end];
    [question[0], question[1], question[2]] = [STRINGS, FEATURE_NAMES, count];
    let answer = ask_driver(socket, interface, question)?;
    let names = answer[NAMES].chunks(NAME_WORDS).take(count as usize);
    let known = names.enumerate().filter_map(|(bit, words)| {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        let text: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        let (_, name) = MERGING.into_iter().find(|(kernels, _)| kernels.as_bytes() == text)?;
        Some(Feature { bit, name })
    });
    Ok(known.collect())
}

fn is_on(socket: &OwnedFd, interface: &str, bit: usize) -> Result<bool, Errno> {
    let (_, features) = features(socket, interface)?;
    // Each block has four words: available, requested, active, never changed.
    Ok(features[4 * (bit / BLOCK) + 2] & (1 << (bit % BLOCK)) != 0)
}

/// Returns the number of the kernel's blocks, and the words of all blocks.
fn features(socket: &OwnedFd, interface: &str) -> Result<(u32, [u32; 4 * MOST_BLOCKS]), Errno> {
    let mut question = [0; 2 + 4 * MOST_BLOCKS];
    [question[0], question[1]] = [FEATURES, MOST_BLOCKS as u32];
    let answer = ask_driver(socket, interface, question)?;
    let mut words = [0; 4 * MOST_BLOCKS];
    words.copy_from_slice(&answer[2..]);
    Ok((answer[1], words))
}

fn switch_off(socket: &OwnedFd, interface: &str, bit: usize) -> Result<(), Errno> {
    let (blocks, _) = features(socket, interface)?;
    let mut request = [0; 2 + 2 * MOST_BLOCKS];
    [request[0], request[1]] = [SET_FEATURES, blocks];
    // Each block has two words: the mask of features to set, and their values.
    request[2 + 2 * (bit / BLOCK)] = 1 << (bit % BLOCK);
    ask_driver(socket, interface, request).map(|_| ())
}

/// Returns the two words of a number in the order of memory.
fn halves(number: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

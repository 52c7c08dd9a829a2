//! The VLAN tag that the kernel takes off a frame before any socket sees it.

/// The length of the addresses at a frame's beginning; a tag follows them.
pub(super) const ADDRESS_BYTES: usize = 12;
/// The length of a tag: its type and its content.
pub(super) const TAG_BYTES: usize = 4;

/// A tag's bytes.
pub(super) type Tag = [u8; TAG_BYTES];

/// Puts a tag back into a frame that lies behind [`TAG_BYTES`] of room, and is long
/// enough for its addresses.
pub(super) fn put_back(tag: Tag, room_and_frame: &mut [u8]) {
    room_and_frame.copy_within(TAG_BYTES..TAG_BYTES + ADDRESS_BYTES, 0);
    room_and_frame[ADDRESS_BYTES..ADDRESS_BYTES + TAG_BYTES].copy_from_slice(&tag);
}

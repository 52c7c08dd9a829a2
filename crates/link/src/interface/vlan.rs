//! The VLAN tag that the kernel removes from a frame before any socket receives the frame.

/// The length of the addresses at the beginning of a frame. A tag follows the addresses.
pub(super) const ADDRESS_BYTES: usize = 12;
/// The length of a tag: its type and its content.
pub(super) const TAG_BYTES: usize = 4;

/// The bytes of a tag.
pub(super) type Tag = [u8; TAG_BYTES];

/// Puts a tag back into a frame. The buffer must begin with [`TAG_BYTES`] free bytes, and the frame
/// must be long enough for its addresses.
pub(super) fn put_back(tag: Tag, room_and_frame: &mut [u8]) {
    room_and_frame.copy_within(TAG_BYTES..TAG_BYTES + ADDRESS_BYTES, 0);
    room_and_frame[ADDRESS_BYTES..ADDRESS_BYTES + TAG_BYTES].copy_from_slice(&tag);
}

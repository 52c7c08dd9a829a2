//! Notifications from the switch to its primary controller: digests, and idle entries.

use std::time::{SystemTime, UNIX_EPOCH};

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::config::v1::p4_data_type_spec::TypeSpec;
use tributary_p4runtime::p4::config::v1::{P4DataTypeSpec, P4TypeInfo};
use tributary_p4runtime::p4::v1::p4_data::Data;
use tributary_p4runtime::p4::v1::stream_message_response::Update;
use tributary_p4runtime::p4::v1::{self as message, P4Data, P4Header, P4StructLike};

use super::convert;
use super::device::Device;
use crate::control::Notification;
use crate::engine::Notifications;

/// Delivers notifications to the primary controller, until the switch stops.
pub(super) async fn deliver(device: &Device, mut notifications: Notifications) {
    while let Some(notification) = notifications.recv().await {
        let Some(program) = device.programs.read().await.running.clone() else { continue };
        let update = match notification {
            Notification::Digests { digest_id, list } => {
                let message = |values| data(program.p4info(), digest_id, values);
                Update::Digest(message::DigestList {
                    digest_id,
                    list_id: list.list_id,
                    data: list.messages.into_iter().map(message).collect(),
                    timestamp: now(),
                })
            }
            Notification::Idle(entries) => {
                Update::IdleTimeoutNotification(message::IdleTimeoutNotification {
                    table_entry: entries.into_iter().map(convert::entry_message).collect(),
                    timestamp: now(),
                })
            }
        };
        device.post(update).await;
    }
}

/// Returns the nanoseconds since the Unix epoch.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    convert::nanoseconds(since)
}

/// Converts a digest's message to the form that the P4Info describes.
fn data(p4info: &P4Info, digest_id: u32, values: Vec<Vec<u8>>) -> P4Data {
    let info = p4info.message();
    let digest = info.digests.iter().find(|one| one.preamble.as_ref().is_some_and(|p| p.id == digest_id));
    let spec = digest.and_then(|digest| digest.type_spec.as_ref());
    let mut values = values.into_iter();
    match spec.and_then(|spec| typed(spec, info.type_info.as_ref(), &mut values)) {
        Some(data) => P4Data { data: Some(data) },
        None => {
            let members = values.map(|value| P4Data { data: Some(Data::Bitstring(value)) }).collect();
            P4Data { data: Some(Data::Struct(P4StructLike { members })) }
        }
    }
}

/// Converts the next values to a value of this type; `None` if the P4Info does not describe the
/// type.
fn typed(
    spec: &P4DataTypeSpec,
    types: Option<&P4TypeInfo>,
    values: &mut impl Iterator<Item = Vec<u8>>,
) -> Option<Data> {
    let member = |spec: &P4DataTypeSpec, values: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut values = values;
        Some(P4Data { data: Some(typed(spec, types, &mut values)?) })
    };
    Some(match spec.type_spec.as_ref()? {
        TypeSpec::Struct(name) => {
            let known = types?.structs.get(&name.name)?.members.iter();
            let members = known.map(|one| member(one.type_spec.as_ref()?, values)).collect::<Option<_>>()?;
            Data::Struct(P4StructLike { members })
        }
        TypeSpec::Tuple(tuple) => {
            let members = tuple.members.iter().map(|one| member(one, values)).collect::<Option<_>>()?;
            Data::Tuple(P4StructLike { members })
        }
        TypeSpec::Header(name) => {
            let fields = types?.headers.get(&name.name)?.members.len();
            Data::Header(P4Header { is_valid: true, bitstrings: values.take(fields).collect() })
        }
        TypeSpec::Bool(_) => Data::Bool(values.next()?.iter().any(|byte| *byte != 0)),
        TypeSpec::SerializableEnum(_) => Data::EnumValue(values.next()?),
        TypeSpec::Enum(name) => {
            let number = values.next()?.iter().fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
            Data::Enum(types?.enums.get(&name.name)?.members.get(number)?.name.clone())
        }
        _ => Data::Bitstring(values.next()?),
    })
}

//! The translated types of a P4Info.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::config::v1::p4_new_type_spec::Representation;
use tributary_p4runtime::p4::config::v1::p4_new_type_translation::SdnType;
use tributary_p4runtime::p4::config::v1::{P4NamedType, Preamble};

use crate::translation::Translation;

/// Returns the representation of a type's values for controllers.
/// Types without a P4Info entry are not translated.
fn of(info: &P4Info, name: Option<&P4NamedType>) -> Translation {
    let types = info.message().type_info.as_ref();
    let known = name.and_then(|name| types?.new_types.get(&name.name)?.representation.as_ref());
    let Some(Representation::TranslatedType(translated)) = known else { return Translation::None };
    match &translated.sdn_type {
        Some(SdnType::SdnBitwidth(width)) => Translation::Bits(u32::try_from(*width).unwrap_or(0)),
        Some(SdnType::SdnString(_)) => Translation::Text,
        None => Translation::None,
    }
}

fn has_id(preamble: Option<&Preamble>, id: u32) -> bool {
    preamble.is_some_and(|preamble| preamble.id == id)
}

/// Returns the translation of a table's key field.
pub(super) fn of_field(info: &P4Info, table: u32, field: u32) -> Translation {
    let table = info.message().tables.iter().find(|one| has_id(one.preamble.as_ref(), table));
    let field = table.and_then(|table| table.match_fields.iter().find(|one| one.id == field));
    of(info, field.and_then(|field| field.type_name.as_ref()))
}

/// Returns the translation of an action's parameter.
pub(super) fn of_parameter(info: &P4Info, action: u32, parameter: u32) -> Translation {
    let action = info.message().actions.iter().find(|one| has_id(one.preamble.as_ref(), action));
    let parameter = action.and_then(|action| action.params.iter().find(|one| one.id == parameter));
    of(info, parameter.and_then(|parameter| parameter.type_name.as_ref()))
}

/// Returns the translation of a field of a controller header.
pub(super) fn of_metadata(info: &P4Info, header: u32, field: u32) -> Translation {
    let headers = &info.message().controller_packet_metadata;
    let header = headers.iter().find(|one| has_id(one.preamble.as_ref(), header));
    let field = header.and_then(|header| header.metadata.iter().find(|one| one.id == field));
    of(info, field.and_then(|field| field.type_name.as_ref()))
}

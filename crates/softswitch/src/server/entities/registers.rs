//! Converts registers between P4Runtime's messages and the switch's own types.
//!
//! BMv2 does not give controllers access to registers.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::v1::p4_data::Data;
use tributary_p4runtime::p4::v1::{self as message, Entity, P4Data, entity::Entity as Kind, update};
use tributary_p4runtime::p4info::Register;

use crate::control::Part;
use crate::server::convert;
use crate::server::operation::Operation;
use crate::server::query::Query;
use crate::server::status::Refusal;

/// Number of cells that are read at once. Packets wait meanwhile.
const CELLS_AT_ONCE: usize = 4096;

/// Plans an update; only MODIFY is valid.
pub(in crate::server) fn plan(
    kind: update::Type,
    entry: message::RegisterEntry,
    p4info: &P4Info,
) -> Result<Operation, Refusal> {
    if kind != update::Type::Modify {
        return Err(Refusal::invalid("a register is neither inserted nor deleted: modify it"));
    }
    let index = convert::index(entry.index.as_ref())?;
    let id = entry.register_id;
    let register = p4info.registers().find(|one| one.name.id == id);
    check(register.ok_or_else(|| unknown(id))?)?;
    let value = match entry.data.and_then(|data| data.data) {
        None => None,
        Some(Data::Bitstring(value)) => Some(value),
        Some(_) => return Err(Refusal::invalid("a register's value is a bit string")),
    };
    // An update without a value changes nothing.
    Ok(Operation::new(Part::Register(id), move |switch| {
        value.map_or(Ok(()), |value| switch.set_register(id, index, &value))
    }))
}

/// Plans a read of a register array, or of all arrays.
pub(in crate::server) fn query(
    entry: &message::RegisterEntry,
    p4info: &P4Info,
) -> Result<Vec<Query>, Refusal> {
    let index = convert::index(entry.index.as_ref())?;
    let wanted = |one: &&Register| entry.register_id == 0 || entry.register_id == one.name.id;
    let registers: Vec<&Register> = p4info.registers().filter(wanted).collect();
    if registers.is_empty() && entry.register_id != 0 {
        return Err(unknown(entry.register_id));
    }
    let mut queries = Vec::new();
    for register in registers {
        check(register)?;
        let id = register.name.id;
        match index.map(i64::cast_unsigned) {
            Some(index) => queries.push(Query::Register { register: id, first: index, count: 1, one: true }),
            None => queries.extend((0..register.size).step_by(CELLS_AT_ONCE).map(|first| Query::Register {
                register: id,
                first,
                count: CELLS_AT_ONCE,
                one: false,
            })),
        }
    }
    Ok(queries)
}

fn unknown(id: u32) -> Refusal {
    Refusal::invalid(format!("the P4Info has no register with id {id:#x}"))
}

fn check(register: &Register) -> Result<(), Refusal> {
    if register.bits == 0 {
        return Err(Refusal::unimplemented(&format!(
            "the register {}, whose cells are no plain bit strings,",
            register.name.alias
        )));
    }
    Ok(())
}

/// Returns one cell as an entity.
pub(in crate::server) fn entity(register_id: u32, index: u64, value: Vec<u8>) -> Entity {
    let index = Some(message::Index { index: index.cast_signed() });
    let data = Some(P4Data { data: Some(Data::Bitstring(value)) });
    Entity { entity: Some(Kind::RegisterEntry(message::RegisterEntry { register_id, index, data })) }
}

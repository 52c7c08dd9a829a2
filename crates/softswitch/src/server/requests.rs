//! Carries out controllers' requests on a switch without a server, for fuzzing.
//!
//! Device ids and primaries are not checked.

use tonic::Status;
use tributary_p4runtime::p4::v1::{Entity, PacketOut, ReadRequest, Update};

use super::operation::Operation;
use super::packet;
use super::query::{Query, QueryResult};
use super::status::Refusal;
use crate::pipeline::Pipeline;
use crate::switch::Switch;

/// Carries out an update.
///
/// # Errors
/// The error that a controller would receive.
pub fn write(switch: &mut Switch, update: Update) -> Result<(), Status> {
    let operation = Operation::plan(update, switch.pipeline().info())?;
    operation.carry_out(switch).map_err(|error| Refusal::from(error).into())
}

/// Returns the entities that match the patterns of a read, in order.
///
/// # Errors
/// The error that a controller would receive.
pub fn read(switch: &Switch, request: ReadRequest) -> Result<Vec<Entity>, Status> {
    let mut found = Vec::new();
    for pattern in request.entities {
        for query in Query::plan(pattern, switch.pipeline().info())? {
            found.extend(query.gather(switch).map_err(Refusal::from)?);
        }
    }
    Ok(found.into_iter().flat_map(QueryResult::into_entities).collect())
}

/// Returns the frame with which a packet-out enters the switch at the CPU port.
///
/// # Errors
/// The error that a controller would receive.
pub fn packet_out(pipeline: &Pipeline, packet: &PacketOut) -> Result<Vec<u8>, Status> {
    packet::pack(&pipeline.directory.packet_out, packet).map_err(Status::from)
}

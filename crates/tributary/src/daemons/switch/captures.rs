//! Detects the end of captures that are a switch's ports, and reports their traffic.

use std::future;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tributary_capture::CaptureError;
use tributary_cli::output;
use tributary_softswitch::engine::Control;

use super::ports::Meters;
use crate::options::named::LinkAt;

/// Waits until all captures were read and the switch has processed all their packets. Returns the first
/// error in a capture, if any.
pub(super) async fn processed(
    end: &mut oneshot::Receiver<Option<CaptureError>>,
    control: &Control,
) -> Option<CaptureError> {
    let Ok(error) = end.await else {
        // The switch ended before the captures did. The caller detects this by other means.
        return future::pending().await;
    };
    // Packets may request further passes. The switch processes packets between these checks.
    while matches!(control.run(|switch| switch.is_waiting()).await, Ok(true)) {
        tokio::task::yield_now().await;
    }
    error
}

/// Prints the number of frames that each port has received and sent.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn report(meters: &Meters, json: bool) -> Result<()> {
    if json { output::print(as_json(meters)) } else { output::print(as_table(meters)) }
}

fn as_table(meters: &Meters) -> impl std::fmt::Display {
    let mut table = output::number_table(&["port", "frames in", "bytes in", "frames out", "bytes out"]);
    for (port, meter) in meters {
        let (received, sent) = (meter.received.read(), meter.sent.read());
        let counts = [received.frames, received.bytes, sent.frames, sent.bytes];
        table.add_row([u64::from(port.number)].into_iter().chain(counts));
    }
    table
}

fn as_json(meters: &Meters) -> Value {
    let ports = meters.iter().map(|(port, meter)| {
        let (received, sent) = (meter.received.read(), meter.sent.read());
        let (input, output) = match &port.link {
            LinkAt::Captures(files) => (files.input.as_ref(), files.output.as_ref()),
            LinkAt::Interface(_) => (None, None),
        };
        json!({
            "port": port.number,
            "in": { "file": input, "frames": received.frames, "bytes": received.bytes },
            "out": { "file": output, "frames": sent.frames, "bytes": sent.bytes },
        })
    });
    json!({ "ports": ports.collect::<Vec<_>>() })
}

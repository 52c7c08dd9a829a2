//! The end of captures that are a switch's ports, and what came of them.

use std::future;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tributary_capture::CaptureError;
use tributary_cli::output;
use tributary_softswitch::engine::Control;

use super::ports::Meters;
use crate::options::named::LinkAt;

/// Returns when all captures were read and no packet is on its way in the switch any more, with the
/// first thing that was wrong with a capture.
pub(super) async fn processed(
    end: &mut oneshot::Receiver<Option<CaptureError>>,
    control: &Control,
) -> Option<CaptureError> {
    let Ok(error) = end.await else {
        // The switch has ended before; the caller detects that by other means.
        return future::pending().await;
    };
    // Packets may request one more pass, again and again; the switch continues between these questions.
    while matches!(control.run(|switch| switch.is_waiting()).await, Ok(true)) {
        tokio::task::yield_now().await;
    }
    error
}

/// Prints how many frames came in and left by each port.
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

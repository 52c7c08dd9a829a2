//! Frames between a port and a state machine: building, checking and counting them.

use tributary_api::{Endpoint, JobConfig};
use tributary_link::{BATCH, FramePort, Frames, Mark};
use tributary_wire::constants::MAX_HOPS;
use tributary_wire::frame;
use tributary_wire::{FrameHeader, FrameView, Header, Hop, JobId, Message, Probe, SliceWidth, WireError};

use crate::error::AgentError;

/// Counters of an agent's port, in frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Frames that the agent has passed to the port.
    pub sent: u64,
    /// Frames that the agent has received from the port.
    pub received: u64,
    /// Received frames that were valid but not for this agent. The port of an interface filters out frames
    /// of other jobs, so they are not counted.
    pub not_ours: u64,
    /// Received frames that have the form of INA messages but are damaged.
    pub malformed: u64,
}

impl Traffic {
    /// Returns the counters of two ports together.
    #[must_use]
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            not_ours: self.not_ours + other.not_ours,
            malformed: self.malformed + other.malformed,
        }
    }
}

/// A path through the fabric: the addresses and the hop stack of all frames on the path.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    addresses: FrameHeader,
    hops: Vec<Hop>,
}

impl Route {
    /// Creates the route from `own` to `to`.
    ///
    /// # Errors
    /// [`WireError`] if the hop stack is too long for a frame, or if a hop is invalid.
    pub(crate) fn new(own: &Endpoint, to: &Endpoint, hops: Vec<Hop>) -> Result<Self, WireError> {
        if hops.len() > usize::from(MAX_HOPS) {
            return Err(WireError::Bad { field: "hop count", value: hops.len() as u64 });
        }
        for hop in &hops {
            Hop::parse(&hop.to_bytes()).map(|_| ())?;
        }
        let addresses = FrameHeader {
            source_mac: own.mac,
            destination_mac: to.mac,
            source_ip: own.ip,
            destination_ip: to.ip,
        };
        Ok(Self { addresses, hops })
    }

    /// Returns true if a frame comes from the host at the end of this route. Switches do not change
    /// addresses. A sum therefore has the addresses and the rank of the worker whose gradient completed it.
    pub(crate) fn leads_to_sender_of(&self, frame: &FrameHeader) -> bool {
        let Self { addresses: FrameHeader { destination_mac, destination_ip, .. }, .. } = self;
        (frame.source_mac, frame.source_ip) == (*destination_mac, *destination_ip)
    }
}

/// A port, and the stripe whose frames it receives; `None` if the job has one stripe.
pub(crate) type StripePort = (Box<dyn FramePort>, Option<u32>);

/// Assigns one of the `ports` to each stripe of a job. There is at least one.
///
/// # Errors
/// [`AgentError::Ports`] if the numbers differ.
pub(crate) fn ports_of_stripes(
    config: &JobConfig,
    ports: Vec<Box<dyn FramePort>>,
) -> Result<Vec<StripePort>, AgentError> {
    let (stripes, got) = (config.start_seqs.len().max(1), ports.len());
    if got != stripes {
        return Err(AgentError::Ports { stripes, ports: got });
    }
    Ok(ports.into_iter().zip(0..).map(|(port, stripe)| (port, (stripes > 1).then_some(stripe))).collect())
}

/// An agent's end of its link: the port, the frames to send, and the counters.
pub(crate) struct FrameLink {
    port: Box<dyn FramePort>,
    /// The stripe whose frames the link carries; `None` if it carries those of all stripes.
    stripe: Option<u32>,
    outgoing: Frames,
    traffic: Traffic,
}

impl FrameLink {
    pub(crate) fn new(port: Box<dyn FramePort>, stripe: Option<u32>) -> Self {
        Self { port, stripe, outgoing: Frames::new(), traffic: Traffic::default() }
    }

    pub(crate) fn port(&mut self) -> &mut dyn FramePort {
        &mut *self.port
    }

    /// Lets the port drop the frames of jobs other than `job`, and of other stripes.
    pub(crate) fn pass_only(&mut self, job: JobId) -> Result<(), AgentError> {
        let of_stripe = self.stripe.map(frame::mark_of_stripe);
        let marks: Vec<Mark> =
            frame::marks(job).into_iter().chain(of_stripe).map(|(at, value)| Mark { at, value }).collect();
        self.port.pass_only(&marks).map_err(AgentError::system("filter frames"))
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Sends a message along a route. If the link is full, the frame is lost, as in any network, and the
    /// protocol retransmits it.
    pub(crate) fn send(
        &mut self,
        route: &Route,
        header: Header,
        values: Option<&[i32]>,
    ) -> Result<(), AgentError> {
        let message = Message { header, hops: &route.hops, values };
        let longest = frame::longest_frame(SliceWidth::WIDEST);
        let port = frame::port_of_stripe(self.stripe.unwrap_or_default());
        self.outgoing.try_add(longest, |place| frame::emit_from(port, &route.addresses, &message, place))?;
        self.traffic.sent += 1;
        if self.outgoing.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    /// Sends the frames that wait in the batch.
    pub(crate) fn flush(&mut self) -> Result<(), AgentError> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let frames: Vec<_> = self.outgoing.iter().collect();
        let sent = self.port.send_all(&frames).map_err(AgentError::system("send"));
        self.outgoing.clear();
        sent
    }

    /// Returns the next frame, or `None` if no frame has arrived.
    pub(crate) fn receive(&mut self) -> Result<Option<&[u8]>, AgentError> {
        let received = self.port.receive().map_err(AgentError::system("receive"))?;
        self.traffic.received += u64::from(received.is_some());
        Ok(received)
    }

    pub(crate) fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Ours => {}
            Verdict::NotOurs => self.traffic.not_ours += 1,
            Verdict::Malformed => self.traffic.malformed += 1,
        }
    }
}

/// The result of checking a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The frame was for the agent's state machine or the daemon, even if it was not accepted.
    Ours,
    /// The frame is valid but has another receiver.
    NotOurs,
    /// The frame has the form of an INA message but is invalid.
    Malformed,
}

/// Checks a frame, and passes it to `take` if it is an INA message.
pub(crate) fn parse(frame: &[u8], take: impl FnOnce(&FrameView<'_>) -> Verdict) -> Verdict {
    match FrameView::parse(frame) {
        Ok(view) => take(&view),
        // A cable probe is for the daemon, which reads probes from its own port.
        Err(WireError::NotIna(_)) if Probe::parse(frame).is_ok() => Verdict::Ours,
        Err(WireError::NotIna(_)) => Verdict::NotOurs,
        Err(WireError::Truncated { .. } | WireError::Bad { .. } | WireError::Checksum) => Verdict::Malformed,
    }
}

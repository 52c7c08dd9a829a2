//! Connects the controller's state with the switches: executes calls and runs the background tasks.
//! The state is behind one lock. Each file of this folder has the operations on the state that change together.

mod convergence;
mod generation_changes;
mod job_lifecycle;
mod load_readings;
mod members;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, broadcast};
use tokio::time::Instant;
use tributary_topology::{NodeKey, Topology};

use crate::error::SwitchError;
use crate::events::Events;
use crate::journal::Journal;
use crate::orphans::Orphans;
use crate::state::{ControllerState, Reload};
use crate::switch::{PacketIn, Switch};
use crate::wrong_sum::Diagnoses;
use convergence::free_withdrawn;
pub(crate) use job_lifecycle::{CreateFailure, watch_queue};
pub(crate) use load_readings::watch_loads;
pub(crate) use members::MemberEvents;

/// The controller's state and its switches.
#[derive(Debug)]
pub(crate) struct Manager {
    /// The topology of `state`, readable without the lock of `state`.
    topology: RwLock<Arc<Topology>>,
    /// The journal of jobs.
    pub(crate) journal: Journal,
    state: Mutex<ControllerState>,
    /// The managed switches, in the order of the topology.
    pub(crate) switches: BTreeMap<NodeKey, Switch>,
    /// Packets that switches send to the controller. A reader that is too slow loses the oldest packets.
    pub(crate) packet_ins: broadcast::Sender<PacketIn>,
    /// Jobs that members tried to rejoin but that this controller does not know.
    orphans: Orphans,
    /// Reports of wrong sums that are being collected.
    diagnoses: Diagnoses,
    /// The lock that a request for a group's job holds.
    pub(crate) group_turn: AsyncMutex<()>,
    /// The time of the controller's start.
    pub(crate) since: Instant,
    /// Recent events.
    pub(crate) events: Events,
    runtime: Handle,
}

impl Manager {
    /// Creates a manager and starts its background tasks.
    /// Must be called in a tokio runtime.
    pub(crate) fn start(
        topology: Arc<Topology>,
        journal: Journal,
        state: ControllerState,
        switches: BTreeMap<NodeKey, Switch>,
        packet_ins: broadcast::Sender<PacketIn>,
    ) -> Arc<Self> {
        let (state, runtime) = (Mutex::new(state), Handle::current());
        let topology = RwLock::new(topology);
        let manager = Arc::new(Self {
            topology,
            journal,
            state,
            switches,
            packet_ins,
            orphans: Orphans::default(),
            diagnoses: Diagnoses::default(),
            group_turn: AsyncMutex::default(),
            since: Instant::now(),
            events: Events::default(),
            runtime,
        });
        for (key, switch) in &manager.switches {
            manager.runtime.spawn(free_withdrawn(Arc::downgrade(&manager), *key, switch.held()));
        }
        manager
    }

    /// Returns the present topology.
    /// Keys from the controller's state may be used with it only if the caller has the state locked. Otherwise a reload
    /// may have replaced the topology by one with more nodes.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        // A panic of another thread cannot damage it, because it is only replaced as a whole.
        self.topology.read().clone()
    }

    /// Applies another version of the topology as far as possible, and orders the switches to converge.
    pub(crate) fn reload_topology(&self, newer: &Topology) -> Reload {
        let reload = {
            let mut state = self.state();
            let reload = state.evolve(newer);
            *self.topology.write() = state.topology().clone();
            state.health.touch(Instant::now());
            state.look_at_all();
            reload
        };
        // The reload does not wait for the switches. Each switch gets its state as soon as possible.
        drop(self.order(self.switches.keys().copied()));
        reload
    }

    /// Locks the controller's state. The caller must release the lock quickly.
    pub(crate) fn state(&self) -> MutexGuard<'_, ControllerState> {
        // A panic of another thread cannot damage the state, because each call leaves it consistent.
        self.state.lock()
    }

    /// Fails every job that is alive, and withdraws all tables of jobs.
    pub(crate) async fn stop(&self) -> Result<(), SwitchError> {
        self.state().jobs.fail_all();
        // Only switches with state of jobs are ordered to converge, because other switches may be unreachable.
        let holding: BTreeSet<NodeKey> = {
            let state = self.state();
            state.jobs.iter().flat_map(|(key, _)| state.switches_of(key)).collect()
        };
        self.converge(holding).await
    }
}

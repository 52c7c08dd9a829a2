//! Tests of the state of BMv2 after faults and after restarts of BMv2 or of the controller.

use tributary_api::v1;
use tributary_p4runtime::entry::{ActionCall, Entity, MulticastGroup, TableEntry};

use crate::common::{self, create, end, job, join_all, list, shipped, start};
use crate::switches::{self, eventually};
use crate::wire::network::{Bmv2Network, in_namespace};

/// Returns entities that are not part of the desired state of any switch.
fn leftovers() -> Vec<Entity> {
    let mac = |number: u64| TableEntry::new("mac_forward").exact("dst", number);
    let guard = TableEntry::new("egress_guard").exact("job", 7u16).exact("egress_port", 300u16);
    vec![
        MulticastGroup::to_ports(1, [400, 401]).into(),
        MulticastGroup::to_ports(99, [3]).into(),
        mac(0x0200_0000_0077).action(ActionCall::new("forward").with("port", 9u16)).into(),
        mac(0xffff_ffff_ffff).action(ActionCall::new("to_controller")).into(),
        guard.action(ActionCall::new("allow")).into(),
        TableEntry::new("result_group")
            .exact("job", 7u16)
            .action(ActionCall::new("deliver").with("group", 99u16).with("release", 1u8))
            .into(),
        TableEntry::default_of("identity")
            .action(ActionCall::new("set_identity").with("node", 4711u16))
            .into(),
    ]
}

#[test]
fn a_jobs_tables_come_and_go_and_a_new_controller_withdraws_what_is_left() {
    in_namespace(async || {
        let topology = shipped("plain-middle-4.toml");
        let fabric = Bmv2Network::start(&topology);
        let look = fabric.look();
        let (first, mut client) = start(topology.clone(), look.addresses()).await;
        let bare = look.read_all().await;
        let held = |switch: &str, table: &str| {
            bare[switch].iter().filter(|entity| entity.to_string().starts_with(table)).count()
        };
        // There are entries for five hosts, for broadcasts, and for the probes of cables.
        assert_eq!((held("leaf0", "mac_forward"), held("leaf0", "admission")), (7, 0));

        let (token, plan) = create(&mut client, job("digits")).await.unwrap();
        let mut members = join_all(&mut client, "digits", &token, &plan).await;
        for member in &mut members {
            member.started().await;
        }
        let with_job = look.read_all().await;
        for (name, held) in &with_job {
            // The plain switch in the middle does not take part in the job.
            assert_eq!(held != &bare[name], name != "middle", "{name}");
        }
        end(&mut client, "digits", &token).await.unwrap();
        assert_eq!(look.read_all().await, bare);

        let (token, plan) = create(&mut client, job("letters")).await.unwrap();
        let mut members = join_all(&mut client, "letters", &token, &plan).await;
        for member in &mut members {
            member.started().await;
        }
        drop(first);
        for member in &mut members {
            assert_eq!(member.failed().await, "the controller was shut down");
        }
        assert_ne!(look.read_all().await, bare);
        let (_second, _) = start(topology, look.addresses()).await;
        assert_eq!(look.read_all().await, bare);
    });
}

#[test]
fn whatever_bmv2_held_it_is_brought_into_its_state() {
    in_namespace(async || {
        let topology = shipped("two-workers.toml");
        let fabric = Bmv2Network::start(&topology);
        let look = fabric.look();
        let (controller, _) = start(topology.clone(), look.addresses()).await;
        let expected = look.read_all().await;
        let (_, ours) = look.running("leaf").await;
        controller.shutdown().await.unwrap();

        // With our program's cookie, the entries stay. With another cookie, the controller installs the program again.
        // BMv2 then drops the entries, but keeps the multicast groups.
        for cookie in [ours, ours ^ 1] {
            let other = Bmv2Network::look(&fabric);
            other.install_and_write("leaf", cookie, &leftovers()).await;
            assert_ne!(look.read_all().await, expected);
            let (controller, _) = start(topology.clone(), look.addresses()).await;
            assert_eq!(look.read_all().await, expected);
            controller.shutdown().await.unwrap();
        }
    });
}

#[test]
fn a_bmv2_that_was_restarted_gets_its_tables_back() {
    in_namespace(async || {
        let topology = shipped("two-workers.toml");
        let mut fabric = Bmv2Network::start(&topology);
        let look = fabric.look();
        let (controller, mut client) = start(topology, look.addresses()).await;
        let (token, plan) = create(&mut client, job("digits")).await.unwrap();
        let mut members = join_all(&mut client, "digits", &token, &plan).await;
        for member in &mut members {
            member.started().await;
        }
        let before = look.read_all().await;
        fabric.switch("leaf").restart();
        eventually(async || look.try_read("leaf").await.is_some_and(|held| held == before["leaf"])).await;
        assert_eq!(list(&mut client).await[0].state(), v1::JobState::Running);
        controller.shutdown().await.unwrap();
    });
}

#[test]
fn what_bmv2_refuses_is_told_by_name() {
    in_namespace(async || {
        let topology = shipped("two-workers.toml");
        let fabric = Bmv2Network::start(&topology);
        let mut look = fabric.look();
        // The table `admission` has room for two entries, and a job of two workers needs three.
        let small = switches::program_with_small_table("SwitchIngress.admission.admission", 2);
        let config = tributary_controller::ControllerConfig {
            switches: look.addresses(),
            pipeline: tributary_controller::PipelineSource::Directory(small.path().to_owned()),
            ..common::config(topology)
        };
        let controller = tributary_controller::Controller::start(config).await.unwrap();
        let mut client = common::connect(&controller).await;
        look.use_program(small.path());
        let bare = look.read_all().await;

        let (token, plan) = create(&mut client, job("digits")).await.unwrap();
        let mut members = join_all(&mut client, "digits", &token, &plan).await;
        for member in &mut members {
            let reason = member.failed().await;
            assert!(
                reason
                    .starts_with("its tables cannot be installed: switch leaf refused to insert admission["),
                "{reason}"
            );
            // BMv2's error does not say that the table is full.
            assert!(reason.contains("(UNKNOWN: Error when adding match entry to target)"), "{reason}");
        }
        // This second call of EndJob waits until the job's tables are withdrawn.
        end(&mut client, "digits", &token).await.unwrap();
        assert_eq!(look.read_all().await, bare);
    });
}

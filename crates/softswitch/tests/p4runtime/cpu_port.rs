//! Checks that the switch's constant for the controller's port is equal to the program's.

use tributary_softswitch::SwitchConfig;
use tributary_wire::constants::CPU_PORT;

#[test]
fn a_switch_has_the_controllers_port_of_the_p4_program() {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    assert_eq!(SwitchConfig::new("s1", address, Vec::new()).cpu_port, CPU_PORT);
}

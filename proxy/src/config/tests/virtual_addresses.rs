//! Prefixes and ranges of ports of a Gateway.

use super::*;

/// The shop's Gateway on a prefix, with these ports.
fn wide(prefix: &str, ports: &str) -> String {
    let gateway = format!(
        "metadata: {{name: web, annotations: {{weir.dev/ports: '{ports}'}}}}\nspec:\n  addresses: [{{type: weir.dev/Prefix, value: \"{prefix}\"}}]\n  gatewayClassName"
    );
    changed(
        SHOP,
        "metadata: {name: web}\nspec:\n  gatewayClassName",
        &gateway,
    )
}

fn problem(text: &str) -> String {
    let checked = checked(text);
    assert!(checked.plan.is_none(), "accepted");
    lines(&checked.problems)
}

#[test]
fn a_listener_is_for_a_prefix_and_a_range_of_ports() {
    let plan = plan(&wide("203.0.113.0/24", "http=8080-8099"));
    let places: Vec<String> = plan.listeners.iter().map(|one| one.place()).collect();
    assert_eq!(places, ["203.0.113.0/24:8080-8099"]);
    let six = plan_of_prefix("2001:db8::/32");
    assert_eq!(six.listeners[0].place(), "[2001:db8::/32]:8080");
}

fn plan_of_prefix(prefix: &str) -> Plan {
    plan(&wide(prefix, "http=8080-8080"))
}

#[test]
fn a_range_without_a_prefix_is_of_the_addresses_there_are() {
    let text = changed(
        SHOP,
        "metadata: {name: web}\n",
        "metadata: {name: web, annotations: {weir.dev/ports: http=8080-8089}}\n",
    );
    assert_eq!(plan(&text).listeners[0].place(), "0.0.0.0/0:8080-8089");
    let text = changed(
        &text,
        "  gatewayClassName",
        "  addresses: [{value: 10.0.0.9}]\n  gatewayClassName",
    );
    assert_eq!(plan(&text).listeners[0].place(), "10.0.0.9/32:8080-8089");
}

#[test]
fn what_is_no_prefix_and_what_is_no_range_is_told_with_its_remedy() {
    for prefix in [
        "203.0.113.0",
        "203.0.113.0/33",
        "203.0.113.1/24",
        "2001:db8::/129",
        "web/24",
    ] {
        let told = problem(&wide(prefix, "http=8080-8080"));
        assert!(
            told.contains("is not a prefix; write one such as"),
            "{told}"
        );
    }
    for (ports, remedy) in [
        ("http", "write it as `http=8000-8099`"),
        ("http=8099-8080", "write it as `http=8000-8099`"),
        ("https=8080-8099", "there is no listener `https`"),
        ("http=8000-8099", "write `http=8080-8099`"),
    ] {
        let told = problem(&wide("203.0.113.0/24", ports));
        assert!(told.contains(remedy), "{ports}: {told}");
    }
}

#[test]
fn prefixes_and_ranges_are_for_http() {
    let tcp = changed(
        &wide("203.0.113.0/24", "http=8080-8080"),
        "protocol: HTTP",
        "protocol: TCP",
    );
    let told = problem(&tcp);
    assert!(
        told.contains("are for listeners of protocol HTTP"),
        "{told}"
    );
}

#[test]
fn one_place_of_two_listeners_is_reported_and_a_longer_prefix_is_none() {
    let text = wide("203.0.113.0/24", "http=8080-8080");
    let twice = changed(
        &text,
        "addresses: [{type: weir.dev/Prefix",
        "addresses: [{type: weir.dev/Prefix, value: 203.0.113.0/24}, {type: weir.dev/Prefix",
    );
    assert!(problem(&twice).contains("is listened on already"));
    let longer = changed(
        &text,
        "addresses: [{type: weir.dev/Prefix",
        "addresses: [{type: weir.dev/Prefix, value: 203.0.113.0/25}, {type: weir.dev/Prefix",
    );
    assert_eq!(plan(&longer).listeners.len(), 2);
}

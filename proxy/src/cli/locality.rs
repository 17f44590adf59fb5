//! Where this proxy stands: `--locality`, `--node-name`, `--cluster` and `--network`.

use clap::Args;

use crate::balance::Locality;

/// What Services that prefer near endpoints compare with.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Where the proxy is, for Services that prefer near endpoints")]
pub struct LocalityArguments {
    /// Region, zone and subzone; the later ones may be left out
    #[arg(
        long,
        value_name = "REGION/ZONE/SUBZONE",
        env = "LOCALITY",
        value_parser = parse
    )]
    locality: Option<Locality>,

    /// Name of the node, as `nodeName` of EndpointSlices has it
    #[arg(long, value_name = "NODE", env = "NODE_NAME")]
    node_name: Option<String>,

    /// Name of the cluster
    #[arg(long, value_name = "CLUSTER", env = "CLUSTER_ID")]
    cluster: Option<String>,

    /// Name of the network
    #[arg(long, value_name = "NETWORK", env = "NETWORK")]
    network: Option<String>,
}

impl LocalityArguments {
    /// `None` if nothing was said.
    pub fn known(&self) -> Option<Locality> {
        let said = |part: &Option<String>| part.clone().unwrap_or_default();
        let locality = Locality {
            node: said(&self.node_name),
            cluster: said(&self.cluster),
            network: said(&self.network),
            ..self.locality.clone().unwrap_or_default()
        };
        (!locality.is_unknown()).then_some(locality)
    }
}

fn parse(text: &str) -> Result<Locality, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let part = |place: usize| parts.get(place).copied().unwrap_or_default().to_owned();
    if parts.len() > 3 {
        return Err(
            "has more than three parts; write region/zone/subzone, as in eu-1/eu-1a/rack-7".into(),
        );
    }
    Ok(Locality {
        region: part(0),
        zone: part(1),
        subzone: part(2),
        ..Locality::default()
    })
}

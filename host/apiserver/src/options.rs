//! How the server is to be started. Names follow upstream's flags.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

use crate::registry::allocation::{ClusterIpRange, DEFAULT_CLUSTER_IP_RANGE, DEFAULT_NODE_PORTS};

/// Everything that can be chosen.
#[derive(Clone, Debug)]
pub struct ApiServerOptions {
    pub bind_address: IpAddr,
    /// Zero: any free port.
    pub secure_port: u16,
    /// Holds `pki/` and `admin.kubeconfig`.
    pub data_dir: PathBuf,
    /// Further CAs whose client certificates are believed, PEM.
    pub client_ca_file: Option<PathBuf>,
    /// The server's certificate and key, PEM; without them those of `pki/` are used. Both or neither.
    pub tls_cert_file: Option<PathBuf>,
    pub tls_private_key_file: Option<PathBuf>,
    /// Static bearer tokens, CSV.
    pub token_auth_file: Option<PathBuf>,
    /// Where others find the server; `None`: at `bind_address`, or at the loopback if that is every address.
    pub advertise_address: Option<IpAddr>,
    /// Where cluster IPs come from, one range of each family at most, the default first. The first address is that of the
    /// `kubernetes` service.
    pub service_cluster_ip_ranges: Vec<ClusterIpRange>,
    pub service_node_port_range: RangeInclusive<u16>,
    /// How long requests may go on after the server has been told to stop.
    pub shutdown_grace: Duration,
}

impl Default for ApiServerOptions {
    fn default() -> Self {
        Self {
            bind_address: Ipv4Addr::UNSPECIFIED.into(),
            secure_port: 6443,
            data_dir: PathBuf::from("pilothouse-data"),
            client_ca_file: None,
            tls_cert_file: None,
            tls_private_key_file: None,
            token_auth_file: None,
            advertise_address: None,
            service_cluster_ip_ranges: DEFAULT_CLUSTER_IP_RANGE.parse().into_iter().collect(),
            service_node_port_range: DEFAULT_NODE_PORTS,
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

impl ApiServerOptions {
    /// The address to listen on.
    pub(crate) fn listen_address(&self) -> SocketAddr {
        SocketAddr::new(self.bind_address, self.secure_port)
    }

    /// The address to tell others.
    pub(crate) fn public_ip(&self) -> IpAddr {
        match (self.advertise_address, self.bind_address) {
            (Some(address), _) => address,
            (None, address) if !address.is_unspecified() => address,
            (None, _) => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

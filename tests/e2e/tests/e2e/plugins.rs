//! Plugins dropped into a running control plane.

//! What every namespace has: the ServiceAccount `default`, and the ConfigMap `kube-root-ca.crt` without which pods cannot start.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/>

mod default_account;
mod namespace;
mod root_ca;

use default_account::DefaultAccount;
use root_ca::RootCa;

pilothouse_sdk::export! {
    controller(reconcile): [DefaultAccount, RootCa],
}

//! The static token file: `token,user,uid,"group1,group2"` a line; uid and groups may be missing.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/authentication/#static-token-file>

use std::{fs, path::Path};

use pilothouse_client::UserInfo;

use crate::server::StartError;

/// Tokens with their users.
pub(super) fn read(path: &Path) -> Result<Vec<(String, UserInfo)>, StartError> {
    let bytes = fs::read(path).map_err(|source| StartError::File {
        path: path.to_owned(),
        source,
    })?;
    let wrong =
        |why: String| StartError::Options(format!("--token-auth-file {}: {why}", path.display()));
    let text = String::from_utf8(bytes).map_err(|_| wrong("not a text file".to_owned()))?;
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = parse(line).map_err(|why| wrong(format!("line {}: {why}", number + 1)))?;
        tokens.push(entry);
    }
    Ok(tokens)
}

fn parse(line: &str) -> Result<(String, UserInfo), &'static str> {
    let fields = csv_fields(line)?;
    let [token, name, rest @ ..] = fields.as_slice() else {
        return Err("fewer than the fields token and user");
    };
    if token.is_empty() || name.is_empty() {
        return Err("token and user must not be empty");
    }
    let groups = rest.get(1).map(String::as_str).unwrap_or_default();
    let groups: Vec<&str> = groups
        .split(',')
        .map(str::trim)
        .filter(|group| !group.is_empty())
        .collect();
    let mut user = UserInfo::new(name, &groups);
    user.uid = rest.first().cloned().unwrap_or_default();
    Ok((token.clone(), user))
}

/// The fields of one CSV line; quotes keep commas together and are doubled inside.
fn csv_fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    if quoted {
        return Err("a quote is not closed");
    }
    fields.push(field);
    Ok(fields.iter().map(|field| field.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &[u8]) -> Result<Vec<(String, UserInfo)>, StartError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn the_file_names_users_and_groups() {
        let read = read_text(b"t1,alice,u1,\"dev,ops\"\n\n# nobody\nt2,bob\n").unwrap();
        let [(t1, alice), (t2, bob)] = &read[..] else {
            panic!("two users: {read:?}");
        };
        assert_eq!((t1.as_str(), t2.as_str()), ("t1", "t2"));
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "u1"));
        assert_eq!(alice.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(bob.groups, ["system:authenticated"]);
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_with_the_line() {
        for (text, why) in [
            (&b"only-a-token\n"[..], "line 1: fewer than the fields"),
            (
                b"t1,alice\n,bob\n",
                "line 2: token and user must not be empty",
            ),
            (b"t1,alice,u,\"dev\n", "line 1: a quote is not closed"),
            (b"\xff\xfe\x00", "not a text file"),
        ] {
            let refused = read_text(text).unwrap_err().to_string();
            assert!(
                refused.contains(why),
                "{refused:?} does not contain {why:?}"
            );
        }
    }
}

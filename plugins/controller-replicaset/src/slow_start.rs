//! Creating many pods that may all be refused for the same reason: batches of 1, 2, 4 … until one has a failure.

/// Calls `create` up to `count` times. A failure lets its batch end and skips the rest.
/// Answers how many calls succeeded, and the first failure.
pub(crate) fn slow_start<E>(
    count: usize,
    mut create: impl FnMut() -> Result<(), E>,
) -> (usize, Option<E>) {
    let mut created = 0;
    let mut remaining = count;
    let mut batch = remaining.min(1);
    while batch > 0 {
        let mut failure = None;
        for _ in 0..batch {
            match create() {
                Ok(()) => created += 1,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if failure.is_some() {
            return (created, failure);
        }
        remaining -= batch;
        batch = (2 * batch).min(remaining);
    }
    (created, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_with_its_batch() {
        // wanted, the call that fails, calls made, created
        let cases = [
            (0, None, 0, 0),
            (1, None, 1, 1),
            (10, None, 10, 10),
            (10, Some(1), 1, 0),
            (10, Some(2), 3, 2),
            (10, Some(3), 3, 2),
            (10, Some(4), 7, 6),
            (10, Some(8), 10, 9),
        ];
        for (wanted, failing, calls, created) in cases {
            let mut made = 0;
            let (succeeded, failure) = slow_start(wanted, || {
                made += 1;
                if Some(made) == failing {
                    Err("refused")
                } else {
                    Ok(())
                }
            });
            assert_eq!(
                (made, succeeded),
                (calls, created),
                "{wanted} wanted, {failing:?} fails"
            );
            assert_eq!(failure.is_some(), failing.is_some());
        }
    }
}

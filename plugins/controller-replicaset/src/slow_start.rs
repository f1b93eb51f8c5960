//! Creating many pods that may all be refused for the same reason: batches of 1, 2, 4 … until one has a failure.

/// Creates `count` in batches; `create` is given the size of one and answers for each of it. A failure skips the batches after
/// its own. Answers how many were created, and the first failure.
pub(crate) fn slow_start<E>(
    count: usize,
    mut create: impl FnMut(usize) -> Vec<Result<(), E>>,
) -> (usize, Option<E>) {
    let mut created = 0;
    let mut remaining = count;
    let mut batch = remaining.min(1);
    while batch > 0 {
        let mut failure = None;
        for answer in create(batch) {
            match answer {
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
        // wanted, the creation that fails, batches, created
        let cases: &[(usize, usize, &[usize], usize)] = &[
            (0, 0, &[], 0),
            (1, 0, &[1], 1),
            (10, 0, &[1, 2, 4, 3], 10),
            (10, 1, &[1], 0),
            (10, 2, &[1, 2], 2),
            (10, 3, &[1, 2], 2),
            (10, 4, &[1, 2, 4], 6),
            (10, 8, &[1, 2, 4, 3], 9),
        ];
        for (wanted, failing, batches, created) in cases {
            let mut made = Vec::new();
            let (succeeded, failure) = slow_start(*wanted, |batch| {
                let first = made.iter().sum::<usize>() + 1;
                made.push(batch);
                let answer = |number| {
                    if number == *failing {
                        Err("refused")
                    } else {
                        Ok(())
                    }
                };
                (first..first + batch).map(answer).collect()
            });
            assert_eq!(
                (&*made, succeeded),
                (*batches, *created),
                "{wanted} wanted, {failing} fails"
            );
            assert_eq!(failure.is_some(), *failing > 0);
        }
    }
}

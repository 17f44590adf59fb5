//! How many requests may be tried again: a share of all, and a few more in every second. What is not spent is saved up
//! to a point, so that a burst after a quiet time is not refused.

use crate::moment::Moment;
use crate::route::RetryBudget;

/// Hundredths of a retry.
const RETRY: u64 = 100;
/// What can be saved.
const MOST: u64 = 50 * RETRY;

/// Of one worker, by place of the backend.
#[derive(Debug, Default)]
pub struct RetryBudgets {
    accounts: Vec<Account>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    /// Hundredths of a retry.
    saved: u64,
    /// Up to when the seconds have been paid in.
    paid_at: Moment,
}

impl RetryBudgets {
    /// A request that may be tried again has come.
    pub fn on_request(&mut self, place: usize, budget: RetryBudget) {
        self.account(place).pay(u64::from(budget.percent));
    }

    /// Takes one retry off the budget; false if there is none.
    pub fn take(&mut self, place: usize, budget: RetryBudget, now: Moment) -> bool {
        let account = self.account(place);
        let millis = now.since(account.paid_at).as_millis();
        let floor = u128::from(budget.floor) * u128::from(RETRY) * millis / 1000;
        // Less than a hundredth stays owed.
        if floor > 0 {
            account.paid_at = now;
            account.pay(u64::try_from(floor).unwrap_or(MOST));
        }
        let is_enough = account.saved >= RETRY;
        if is_enough {
            account.saved -= RETRY;
        }
        is_enough
    }

    fn account(&mut self, place: usize) -> &mut Account {
        if place >= self.accounts.len() {
            let full = Account {
                saved: MOST,
                paid_at: Moment::default(),
            };
            self.accounts.resize(place + 1, full);
        }
        &mut self.accounts[place]
    }
}

impl Account {
    fn pay(&mut self, amount: u64) {
        self.saved = self.saved.saturating_add(amount).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const BUDGET: RetryBudget = RetryBudget {
        percent: 20,
        floor: 5,
    };

    fn spend_all(budgets: &mut RetryBudgets, now: Moment) -> usize {
        (0..1000)
            .take_while(|_| budgets.take(0, BUDGET, now))
            .count()
    }

    #[test]
    fn requests_and_seconds_pay_in_and_only_so_much_is_saved() {
        let mut budgets = RetryBudgets::default();
        let mut now = Moment::from_nanos(1);
        assert_eq!(spend_all(&mut budgets, now), 50, "a full account");
        for _ in 0..99 {
            budgets.on_request(0, BUDGET);
        }
        assert_eq!(spend_all(&mut budgets, now), 19, "a fifth of the requests");
        budgets.on_request(0, BUDGET);
        assert_eq!(spend_all(&mut budgets, now), 1, "with what was left over");
        now = now + Duration::from_secs(2);
        assert_eq!(spend_all(&mut budgets, now), 10);
        now = now + Duration::from_secs(3600);
        assert_eq!(spend_all(&mut budgets, now), 50);
    }

    #[test]
    fn seconds_are_paid_in_however_often_one_asks() {
        let mut budgets = RetryBudgets::default();
        let mut now = Moment::from_nanos(1);
        spend_all(&mut budgets, now);
        let mut taken = 0;
        for _ in 0..10_000 {
            now = now + Duration::from_micros(300);
            taken += usize::from(budgets.take(0, BUDGET, now));
        }
        assert!((14..=15).contains(&taken), "{taken} in three seconds");
    }

    #[test]
    fn backends_have_accounts_of_their_own() {
        let mut budgets = RetryBudgets::default();
        let now = Moment::from_nanos(1);
        assert_eq!(spend_all(&mut budgets, now), 50);
        assert!(budgets.take(1, BUDGET, now));
    }
}

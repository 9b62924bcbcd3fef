//! The division of a number of 128 bits by one of 64, for which the language calls a function of some forty instructions.

use core::arch::asm;

/// `dividend / divisor`, rounded down; `u64::MAX` where that has more than 64 bits, or the divisor is zero.
#[inline]
pub fn divide(dividend: u128, divisor: u64) -> u64 {
    let (high, low) = ((dividend >> 64) as u64, dividend as u64);
    if high >= divisor {
        return u64::MAX;
    }
    let quotient;
    // SAFETY: changes registers alone, and raises no exception: the divisor is above the high half, so it is not zero and the quotient has at most 64 bits
    // (SDM vol. 2, DIV).
    unsafe {
        asm!("div {}", in(reg) divisor, inlateout("rax") low => quotient, inlateout("rdx") high => _,
             options(pure, nomem, nostack));
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_divides_as_the_language_does() {
        let numbers =
            [0, 1, 2, 3, 1023, 1 << 20, (1 << 32) - 1, 1 << 32, u64::MAX / 3, u64::MAX - 1, u64::MAX];
        for high in numbers {
            for low in numbers {
                for divisor in numbers {
                    let dividend = u128::from(high) << 64 | u128::from(low);
                    let exact = dividend.checked_div(u128::from(divisor)).unwrap_or(u128::MAX);
                    let fits = u64::try_from(exact).unwrap_or(u64::MAX);
                    assert_eq!(divide(dividend, divisor), fits, "{dividend} by {divisor}");
                }
            }
        }
    }
}

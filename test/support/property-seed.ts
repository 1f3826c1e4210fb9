/**
 * Owns the seed of every property: one seed, so that a run that failed fails again on the next machine.
 * `PROPERTY_SEED=n` takes another, `PROPERTY_SEED=random` a new one each time, said when a property fails.
 */
import fc from 'fast-check'

const asked = process.env['PROPERTY_SEED'] ?? '1'
if (asked !== 'random') fc.configureGlobal({ seed: Number(asked) })

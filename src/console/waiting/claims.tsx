/**
 * Owns the agent's own words, shown separately, and only as its claim. Contract: "Agreement" (reason,
 * mission).
 */
import { Field, Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import type { Whole } from './whole.ts'

const W = WORDS.waiting

export function Claims({ said, fault }: { said: Whole['said'] | undefined; fault: string | undefined }) {
  return (
    <section class="claims">
      <h3>{W.claims}</h3>
      <p class="note">{W.claimsHint}</p>
      {said === undefined ? (
        <p class="quiet">{fault ?? WORDS.loading}</p>
      ) : said === 'forged' ? (
        <p class="notice bad">{W.claimsForged}</p>
      ) : (
        <>
          {said.reason === undefined ? (
            <p class="quiet">{W.claimsNone}</p>
          ) : (
            <blockquote>
              <Shown text={said.reason} label={W.reason} />
            </blockquote>
          )}
          {said.client === undefined ? null : (
            <dl>
              <Field name={W.client}>
                <Shown text={said.client} isName />
              </Field>
            </dl>
          )}
          {said.approver === undefined ? null : (
            <dl>
              <Field name={W.mission}>
                <Shown text={said.approver} isName />
              </Field>
            </dl>
          )}
        </>
      )}
    </section>
  )
}

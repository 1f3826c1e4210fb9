/**
 * Owns the agent's own words, shown separately, and only as its claim. Contract: "Agreement" (reason,
 * mission).
 */
import { Field, Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import type { Whole } from './whole.ts'

const W = WORDS.waiting

export function Claims({
  ownWords,
  fault,
}: {
  ownWords: Whole['ownWords'] | undefined
  fault: string | undefined
}) {
  return (
    <section class="claims">
      <h3>{W.claims}</h3>
      <p class="note">{W.claimsHint}</p>
      {ownWords === undefined ? (
        <p class="quiet">{fault ?? WORDS.loading}</p>
      ) : ownWords === 'forged' ? (
        <p class="notice bad">{W.claimsForged}</p>
      ) : (
        <>
          {ownWords.reason === undefined ? (
            <p class="quiet">{W.claimsNone}</p>
          ) : (
            <blockquote>
              <Shown text={ownWords.reason} label={W.reason} />
            </blockquote>
          )}
          {ownWords.client === undefined ? null : (
            <dl>
              <Field name={W.client}>
                <Shown text={ownWords.client} isName />
              </Field>
            </dl>
          )}
          {ownWords.approver === undefined ? null : (
            <dl>
              <Field name={W.mission}>
                <Shown text={ownWords.approver} isName />
              </Field>
            </dl>
          )}
        </>
      )}
    </section>
  )
}

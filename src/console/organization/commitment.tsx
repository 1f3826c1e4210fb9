/**
 * What an organization's charter means for her, whether she has agreed to it or not. Contract: "The
 * organization's authority" (preview: the charter in sentences), "Organization membership, on the member's
 * authorization server".
 */
import type { ComponentChildren } from 'preact'
import type { OrganizationChange, OrganizationStanding } from '../../wire/owner/owner-organization.ts'
import { Chips } from '../parts/parts.tsx'
import { Field, Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'

const W = WORDS.organization

/** How she stands with the organization that she joined. */
export type MemberStanding = Extract<OrganizationStanding, { enrolled: true }>

export function Part({
  title,
  hint,
  children,
}: {
  title: string
  hint?: string
  children: ComponentChildren
}) {
  return (
    <section class="facts">
      <h3>{title}</h3>
      {hint === undefined ? null : <p class="note">{hint}</p>}
      {children}
    </section>
  )
}

export function Sentences({ texts }: { texts: readonly string[] }) {
  return (
    <ul class="sentences">
      {texts.map(text => (
        <li key={text}>
          <Shown text={text} />
        </li>
      ))}
    </ul>
  )
}

/** What it means, in sentences that her own authority made of the charter; the organization's stand apart. */
export function Commitment({ view }: { view: Pick<MemberStanding, 'summary' | 'powers' | 'own_words'> }) {
  const { gets, can, cannot } = view.powers
  return (
    <>
      <Part title={W.means}>
        <Sentences texts={view.summary} />
      </Part>
      <Powers title={W.gets} powers={gets} />
      <Powers title={W.can} powers={can} />
      <Powers title={W.cannot} powers={cannot} />
      {view.own_words.length === 0 ? null : (
        <Part title={W.ownWords} hint={W.ownWordsHint}>
          <Sentences texts={view.own_words} />
        </Part>
      )}
    </>
  )
}

function Powers({ title, powers }: { title: string; powers: MemberStanding['powers']['gets'] }) {
  return (
    <Part title={title}>
      <dl>
        {powers.map(({ what, detail }) => (
          <Field key={what} name={Object.hasOwn(W.powerNames, what) ? W.powerNames[what]! : what}>
            <Shown text={detail} />
          </Field>
        ))}
      </dl>
    </Part>
  )
}

export function Governed({
  resources,
  conflicts,
}: {
  resources: readonly string[]
  conflicts: readonly string[]
}) {
  return (
    <Part title={W.governed}>
      <Chips texts={resources} none={W.governedNone} />
      {conflicts.length === 0 ? null : (
        <>
          <p class="note">{W.conflicts}</p>
          <Chips texts={conflicts} />
        </>
      )}
    </Part>
  )
}

/** What joining would cut. */
export function Changes({ changes }: { changes: readonly OrganizationChange[] }) {
  return (
    <Part title={W.changes}>
      {changes.length === 0 ? (
        <p>{W.changesNone}</p>
      ) : (
        <dl>
          {changes.map(({ tier, tier_name, field, text, own_resources }) => (
            <Field key={`${tier} ${field}`} name={tier_name}>
              <Shown text={text} />
              {own_resources.length === 0 ? null : (
                <span class="note warn">
                  <Shown text={W.alsoCut(own_resources.join(', '))} />
                </span>
              )}
            </Field>
          ))}
        </dl>
      )}
    </Part>
  )
}

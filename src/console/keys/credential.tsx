/**
 * One of her credentials on the page: its name, when it was used, and its end. Contract: "Authentication".
 */
import type { ComponentChildren } from 'preact'
import { ask } from '../access/api.ts'
import { Asking, Fault } from '../parts/parts.tsx'
import { useDeed, useSession } from '../access/session.ts'
import { Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'

const W = WORDS.keys

/**
 * `used`: when, and the label for that; `over`: why it is no longer valid, in which case there is nothing to
 * remove.
 */
export interface CredentialProps {
  name: string
  says: string
  id: string
  path: string
  used: { label: string; at: string | undefined }
  isHere?: boolean
  over: string | null
  removeAsk?: string
  children?: ComponentChildren
}

export function Credential(props: CredentialProps) {
  const { name, says, id, path, used, isHere = false, over, removeAsk = W.removeAsk, children } = props
  const { access } = useSession()
  const { busy, fault, run } = useDeed()
  const remove = async (): Promise<void> => {
    await ask(access, { method: 'DELETE', path })
  }
  return (
    <li class={`item${over === null ? '' : ' past'}`}>
      <div class="item-head">
        <h3>
          <Shown text={name} />
        </h3>
        {isHere ? <span class="tag good">{W.here}</span> : null}
        {over === null ? null : <span class="tag">{over}</span>}
      </div>
      <p class="quiet">
        <Shown text={says} />
      </p>
      <p class="quiet">
        {used.label}: {used.at === undefined ? W.notLately : whenText(used.at)}
      </p>
      <p class="quiet mono small">{id}</p>
      {children}
      <Fault text={fault} />
      {over === null ? (
        <Asking
          label={W.remove}
          about={name}
          asks={isHere ? W.removeHere : removeAsk}
          confirm={W.removeNow}
          busy={busy}
          onConfirm={() => run(remove)}
        />
      ) : null}
    </li>
  )
}

/** Credentials that are no longer valid, folded away. */
export function Past({ all }: { all: readonly CredentialProps[] }) {
  if (all.length === 0) return null
  return (
    <details class="past-credentials">
      <summary>{WORDS.passkeys.past(all.length)}</summary>
      <ul class="list">
        {all.map(one => (
          <Credential key={one.id} {...one} />
        ))}
      </ul>
    </details>
  )
}

/** A list of the valid ones, with the others below. */
export function Credentials({ all }: { all: readonly CredentialProps[] }) {
  return (
    <>
      <ul class="list">
        {all
          .filter(({ over }) => over === null)
          .map(one => (
            <Credential key={one.id} {...one} />
          ))}
      </ul>
      <Past all={all.filter(({ over }) => over !== null)} />
    </>
  )
}

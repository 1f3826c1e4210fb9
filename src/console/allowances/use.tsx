/**
 * Owns how much of an allowance is used as she sees it: a bar for each window, with its numbers beside it,
 * and when the window begins anew. Contract: "Owner API" (`/owner/allowances`).
 */
import { quantityText, windowLimitText } from '../../rules/words/allowance-words.ts'
import { Shown } from '../parts/shown.tsx'
import { whenText } from '../parts/time.ts'
import { WORDS } from '../words.ts'
import { barOf, useText, type ListedAllowance, type ListedWindow } from './record.ts'

const W = WORDS.allowances

/** Hidden from screen readers, because the same stands beside it in words. */
function Bar({ standing }: { standing: ListedWindow }) {
  const { spent, open } = barOf(standing)
  return (
    <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-spent" width={spent} height="8" />
      <rect class="bar-open" x={spent} width={open} height="8" />
    </svg>
  )
}

/** One window of one allowance. */
export function WindowUse({ allowance, standing }: { allowance: ListedAllowance; standing: ListedWindow }) {
  const { of, ends } = standing
  const maybeBack = /[1-9]/.test(standing.held) ? quantityText(allowance, of, standing.held) : undefined
  return (
    <div class="window-use" data-window={`${of} ${standing.per}`}>
      <Bar standing={standing} />
      <p class="small">
        <Shown text={useText(allowance, standing)} />
        {maybeBack === undefined ? null : (
          <span class="note">
            <Shown text={allowance.held_more === true ? W.moreBack(maybeBack) : W.maybeBack(maybeBack)} />
          </span>
        )}
      </p>
      <p class="small quiet">
        {ends === null ? (
          W.neverAnew
        ) : (
          <>
            {W.anew} <time dateTime={ends}>{whenText(ends)}</time>
          </>
        )}
      </p>
    </div>
  )
}

/**
 * What each lineage uses, by the handle of the agent that introduced the others; `labels` are her own names.
 */
export function LineageUse(props: { allowance: ListedAllowance; labels: ReadonlyMap<string, string> }) {
  const { allowance, labels } = props
  const { use, more } = allowance
  if (use === undefined) return <p class="quiet">{W.useUnknown}</p>
  if (use.length === 0) return <p class="quiet">{W.useNone}</p>
  return (
    <>
      <ul class="lines">
        {use.map(({ whose = '', windows }) => (
          <li key={whose} class="line" data-lineage={whose}>
            <p>
              {labels.has(whose) ? <Shown text={labels.get(whose)!} /> : WORDS.agents.unnamed}
              <span class="note mono">
                <Shown text={whose} isName mono />
              </span>
            </p>
            {windows.map(standing => (
              <div key={`${standing.of} ${standing.per}`}>
                <p class="small">
                  <Shown text={windowLimitText(allowance, standing)} />
                </p>
                <WindowUse allowance={allowance} standing={standing} />
              </div>
            ))}
          </li>
        ))}
      </ul>
      {more === true ? <p class="note">{W.more}</p> : null}
    </>
  )
}

/** What is different between two versions of a tier, member by member, in words. Contract: "Owner API". */
import { Shown } from '../parts/shown.tsx'
import { WORDS } from '../words.ts'
import { differences, type Draft } from './draft.ts'

const W = WORDS.rules

export function Differences({ from, to, none }: { from: Draft; to: Draft; none: string }) {
  const found = differences(from, to)
  if (found.length === 0) return <p class="quiet">{none}</p>
  return (
    <dl class="differences">
      {found.map(({ member, removals, additions }) => (
        <div key={member} data-member={member}>
          <dt>{W.members[member]}</dt>
          {removals.map(line => (
            <dd key={`-${line}`} class="gone">
              <span class="sign">{W.gone}</span> <Shown text={line} />
            </dd>
          ))}
          {additions.map(line => (
            <dd key={`+${line}`} class="come">
              <span class="sign">{W.come}</span> <Shown text={line} />
            </dd>
          ))}
        </div>
      ))}
    </dl>
  )
}

/**
 * Owns how the page names a resource: by the name that its server gave it, with the id beside it. Contract:
 * "Owner API" (`/owner/resources`). Her decision is bound to the id, so the id is always shown.
 */
import { useEffect, useState } from 'preact/hooks'
import { NO_RESOURCE_NAMES, resourceNames, type ResourceNames } from '../../rules/words/resource-words.ts'
import type { Resource } from '../../wire/owner/owner-api.ts'
import { askAll, type Access } from '../access/api.ts'
import { useSession } from '../access/session.ts'
import { Shown } from './shown.tsx'

/** Read once for each log-in; a list that could not be read is asked for again by the next card. */
const read = new WeakMap<Access, Promise<ResourceNames>>()

function namesOf(access: Access): Promise<ResourceNames> {
  const known = read.get(access)
  if (known !== undefined) return known
  const answer = askAll<Resource>(access, 'owner/resources').then(resourceNames)
  read.set(access, answer)
  answer.catch(() => read.delete(access))
  return answer
}

/** The name and the id in brackets, or the id alone until the name is there. */
export function ResourceName({ id }: { id: string }) {
  const { access } = useSession()
  const [names, setNames] = useState(NO_RESOURCE_NAMES)
  useEffect(() => {
    let isHere = true
    namesOf(access).then(
      found => {
        if (isHere) setNames(found)
      },
      // The id says what is meant, so a page does not complain that the names cannot be read.
      () => undefined,
    )
    return () => {
      isHere = false
    }
  }, [access])
  const name = names.get(id)
  if (name === undefined) return <Shown text={id} isName />
  return (
    <>
      <Shown text={name} isName />{' '}
      <span class="quiet">
        (<Shown text={id} isName />)
      </span>
    </>
  )
}
